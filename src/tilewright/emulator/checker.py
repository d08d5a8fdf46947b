"""The checks of a launch: every access is ordered after what it conflicts with, or reported.

Accesses are kept in shadow memory, who knows of what in vector clocks. An access conflicts with an earlier one if it
does not know of it; asynchronous operations must know of ordinary writes past a proxy fence (memory-rules.md).
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.accumulators import AccumulatorChecks
from tilewright.emulator.agents import AgentChecks
from tilewright.emulator.clocks import KNOWN, Clocks
from tilewright.emulator.convergence import ConvergenceChecks
from tilewright.emulator.errors import EmulatorError
from tilewright.emulator.global_copies import GlobalCopyChecks
from tilewright.emulator.lanes import WARP, Array, Group, Indices, Mask
from tilewright.emulator.launch_state import LaunchState
from tilewright.emulator.lifetimes import LifetimeChecks
from tilewright.emulator.local_checks import LocalChecks
from tilewright.emulator.member_masks import MemberMaskChecks
from tilewright.emulator.memory import GLOBAL_BASE, FlatMemory
from tilewright.emulator.ptx import Instruction
from tilewright.emulator.register_budget import RegisterBudget
from tilewright.emulator.registers import RegisterChecks
from tilewright.emulator.releases import Releases, active_lanes
from tilewright.emulator.rules import Report, accesses
from tilewright.emulator.shadow import NEVER, GlobalShadow, SharedShadow, column_of, pack, site_of, time_of, until
from tilewright.emulator.traits import CLUSTER, DEVICE

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


class Checker:
    """The checks of the CTAs of one machine."""

    def __init__(self, machine: "Machine", state: LaunchState) -> None:
        program, topology = machine.program, machine.topology
        self.machine, self.state, self.topology = machine, state, topology
        self.traits = program.traits
        self.clocks = Clocks(topology, self.traits.asynchronous, bool(self.traits.sequential.any()))
        if state.global_proxies:
            self.clocks.track_global_writes()
        self.shared = SharedShadow(
            topology.ctas * topology.shared_stride, topology.ctas, self.traits.shared_cell, topology.threads,
            topology.cluster_size > 1,
        )  # fmt: skip
        self.agents, self.global_copies = AgentChecks(self), GlobalCopyChecks(self)
        self.accumulators = AccumulatorChecks(self, len(program.watched))
        self.member_masks, self.convergence = MemberMaskChecks(self), ConvergenceChecks(self)
        self.registers, self.budget = RegisterChecks(self, program), RegisterBudget(self, program)
        self._floor = np.zeros(topology.ctas, np.int64)  # when all threads of the CTA last met
        self._clusters = (machine.cta_numbers // topology.cluster_size)[topology.cta]
        self.lifetimes = LifetimeChecks(self)
        self.locals = LocalChecks(self, program.entry)
        self.releases = Releases(self)

    def tick(self) -> int:
        """Time passes."""
        self.state.now += 1
        if self.state.now >= NEVER:
            raise EmulatorError("the launch is too long to check: run fewer CTAs, or a Device with checks=False")
        return self.state.now

    # Accesses of threads ---------------------------------------------------------------------------------------------

    def access(
        self, kind: str, space: str, site: int, group: Group, where: Indices, width: int, chosen: Indices | None
    ) -> None:
        """A ld, st or atom of some lanes at flat offsets of shared or global memory."""
        lanes = group.indices if chosen is None else group.indices[chosen]
        where = np.broadcast_to(where, lanes.shape)
        if space == "local":
            self.locals.access(kind, site, lanes, where, width)
            return
        if self.traits.strong[site]:
            self.releases.access(kind, space, site, lanes, where)
            if kind != "ld" and self.traits.scopes[site] < DEVICE:
                self._require_scope(kind, space, site, lanes, where)
        if space == "global":
            self._access_global(kind, site, lanes, where, width)
        else:
            self.access_shared(kind, site, lanes, where, width)

    def access_shared(
        self, kind: str, site: int, lanes: Indices, where: Indices, width: int, agents: Indices | None = None
    ) -> None:
        """Ordinary accesses of lanes to shared memory; `kind` is "copy" for cp.async, which writes later.

        agents: the columns of those that access in the place of lanes, until an mbarrier tells that it is over.
        """
        shadow, now = self.shared, self.tick()
        cells = shadow.cells(where, width)
        cta, target = self.topology.cta[lanes], where // self.topology.shared_stride
        remote = cta != target
        floor = until(np.where(remote, 0, self._floor[cta]))[:, None]
        writes = shadow.writes[cells]
        if kind in ("ld", "atom") and not writes.all() and "exch" not in self.machine.modifiers(site):
            self._uninitialised(site, lanes, where, writes)
        self._require_order(kind, site, lanes, cells, writes, writes > floor)
        reads = kind == "ld"
        if not reads:
            latest = shadow.latest[cells]
            if (latest > floor).any():
                for slot in shadow.reads:
                    self._require_order(kind, site, lanes, cells, slot[cells], slot[cells] > floor, reads=True)
            for slot in shadow.agent_reads.values():
                self._require_order(kind, site, lanes, cells, slot[cells], slot[cells] > 0, reads=True)
        columns = self.clocks.column[lanes] if agents is None else agents
        access = pack(NEVER if kind == "copy" else now, columns, site, kind == "copy")
        foreign = remote | (agents is not None)
        if foreign.any():
            access = np.where(foreign, pack(now, columns, site, True), access)
            offsets = where[foreign] % self.topology.shared_stride
            self.lifetimes.touch(site, target[foreign], columns[foreign], offsets, now)
        if reads:
            slots = np.where(remote, shadow.slots - 1, self.topology.thread[lanes] // WARP)
            shadow.mark_read(slots, cells, access[:, None])
        else:
            shadow.writes[cells] = access[:, None]

    def stored(
        self, site: int, group: Group, memory: FlatMemory, where: Indices, values: list[Array], chosen: Indices | None
    ) -> None:
        """After a store: lanes that find another value in their place have met another lane there."""
        lost = memory.differs(where, values)
        if self.traits.strong[site] or not lost.any():
            return
        lanes = group.indices if chosen is None else group.indices[chosen]
        lost = np.broadcast_to(lost, lanes.shape)
        lane, place = int(lanes[lost][0]), int(np.broadcast_to(where, lanes.shape)[lost][0])
        if memory is self.machine.access.shared:
            access, other = int(self.shared.writes[place // self.shared.cell]), None
            address = self.shared_address(place)
        else:
            shadow = self.shadow_of(place)
            cell = (place - shadow.start) // shadow.cell
            access, cluster = int(shadow.writes[cell]), int(shadow.write_clusters[cell])
            other = cluster if cluster != self.cluster_of(lane) else None
            address = GLOBAL_BASE + place
        self._conflict("st", site, lane, access, address, other)

    def copied(self, site: int, lanes: Indices, where: Indices, width: int, columns: Array | None = None) -> None:
        """cp.async of lanes are over: ordinary writes of these from now on, or of the agents of `columns`."""
        now, cells = self.tick(), self.shared.cells(where, width)
        pending = pack(NEVER, self.clocks.column[lanes], site, True)[:, None]
        over = pack(now, self.clocks.column[lanes], site) if columns is None else pack(now, columns, site, True)
        self.shared.writes[cells] = np.where(
            self.shared.writes[cells] == pending, over[:, None], self.shared.writes[cells]
        )

    def _access_global(self, kind: str, site: int, lanes: Indices, where: Indices, width: int) -> None:
        shadow = self.shadow_of(int(where[0]))
        inside = (where >= shadow.start) & (where < shadow.end)
        if not inside.all():
            self._access_global(kind, site, lanes[~inside], where[~inside], width)
            lanes, where = lanes[inside], where[inside]
        now, cells = self.tick(), shadow.cells(where, width)
        clusters = self.clusters_of(lanes)[:, None]
        access = pack(now, self.clocks.column[lanes], site)[:, None]
        if shadow.written:
            for past, past_clusters in shadow.past_writes():
                writes = past[cells]
                if writes.any():
                    self._require_order(kind, site, lanes, cells, writes, writes > 0, shadow, past_clusters[cells])
        if kind == "ld":
            if shadow.written and self.traits.read_only[site]:
                self._require_read_only(site, lanes, where, shadow.writes[cells])
            shadow.read(cells, access, clusters)
            return
        if self.traits.bulk and not self.state.global_proxies:
            self.state.global_proxies = True
            self.clocks.track_global_writes()
        shadow.expect_writes()
        for past, past_clusters in zip(shadow.reads, shadow.read_clusters, strict=True):
            reads = past[cells]
            if reads.any():
                self._require_order(kind, site, lanes, cells, reads, reads > 0, shadow, past_clusters[cells])
        narrow = bool(self.traits.strong[site] and self.traits.scopes[site] < DEVICE)
        shadow.write(cells, access, clusters, narrow)

    def shadow_of(self, where: int) -> GlobalShadow:
        """The shadow of the allocation that holds an offset of global memory."""
        owner = self.machine.access.memory.containing(where)
        assert owner is not None  # the access was found in bounds
        if owner.start not in self.state.allocations:
            shadow = GlobalShadow.of(owner.start, owner.size, self.traits.global_cell)
            self.state.allocations[owner.start] = shadow
        return self.state.allocations[owner.start]

    def _require_order(
        self,
        kind: str,
        site: int,
        lanes: Indices,
        cells: Indices,
        past: Array,
        late: Mask,
        shadow: GlobalShadow | None = None,
        clusters: Array | None = None,
        reads: bool = False,
    ) -> None:
        """Report what the lanes do not know of, among the past accesses that are `late`.

        shadow, clusters: of global memory, and the clusters of the past accesses; None for shared memory. reads: the
        past accesses are reads of shared memory, which may be overwritten once they are over.
        """
        if not late.any():
            return
        row, place = np.nonzero(late)
        access, lane = past[row, place], lanes[row]
        column, time = column_of(access), time_of(access)
        foreign = np.zeros(lane.size, np.bool_)
        if clusters is not None:
            past_clusters = clusters[row, place]
            foreign = past_clusters != self.clusters_of(lane)
        own = np.where(foreign, 0, column)
        known = self.clocks.overwritable(lane, own) if reads else self.clocks.facts[KNOWN, lane, own]
        unordered = (known < time) & ((column != self.clocks.column[lane]) | (time == NEVER))
        if foreign.any():
            known = self.releases.knows(lane[foreign], past_clusters[foreign], column[foreign], time[foreign])
            unordered[foreign] = ~known
        if self.traits.strong[site]:
            unordered &= ~self.releases.morally_strong(site, lane, site_of(access), column, foreign)
        if self.traits.mbarriers[site]:  # which may share a cell
            unordered &= ~self.traits.mbarriers[site_of(access)]
        for index in np.flatnonzero(unordered)[:: max(int(unordered.sum()) // 8, 1)].tolist():
            where = int(cells[row[index], place[index]]) * (self.shared.cell if shadow is None else shadow.cell)
            address = self.shared_address(where) if shadow is None else GLOBAL_BASE + shadow.start + where
            other = int(past_clusters[index]) if foreign[index] else None
            self._conflict(kind, site, int(lane[index]), int(access[index]), address, other)

    def _require_read_only(self, site: int, lanes: Indices, where: Indices, writes: Array) -> None:
        """Report a non-coherent load of what the launch has written, in whatever order."""
        written = writes > 0
        if not written.any():
            return
        row, place = (int(index[0]) for index in np.nonzero(written))
        address = GLOBAL_BASE + int(where[row])
        message = (
            f"{self.machine.describe(site)} reads address {address:#x} past the caches that writes reach, and this "
            "launch has written there: load it with ld.global, not by __ldg or const __restrict__"
        )
        group = self.topology.group(lanes[row : row + 1])
        self.report("read-only-load", (), message, (site, int(site_of(writes[row, place]))), group, address)

    def _require_scope(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """Report lanes of one instruction that meet at a place and that its scope does not include."""
        for first, second in self.releases.meetings_beyond_scope(site, lanes, where)[:1]:
            access = int(pack(self.state.now, self.clocks.column[lanes[first]], site))
            lane, cluster = int(lanes[second]), self.cluster_of(int(lanes[first]))
            other = cluster if cluster != self.cluster_of(lane) else None
            address = GLOBAL_BASE + int(where[second]) if space == "global" else self.shared_address(int(where[second]))
            self._conflict(kind, site, lane, access, address, other)

    def fence(self, site: int, group: Group, active: Any) -> None:
        """membar, or fence with a memory order."""
        self.releases.fence(site, active_lanes(group, active))

    def clusters_of(self, lanes: Indices) -> Array:
        """The number in the grid of the clusters of lanes."""
        clusters: Array = self._clusters[lanes]
        return clusters

    def cta_of(self, lane: int) -> int:
        """The number in the grid of the CTA of a lane."""
        return int(self.machine.cta_numbers[self.topology.cta[lane]])

    def name_of_lane(self, lane: int) -> str:
        """A thread in words."""
        return f"thread {int(self.topology.thread[lane])} of CTA {self.cta_of(lane)}"

    def cluster_of(self, lane: int) -> int:
        """The number in the grid of the cluster of a lane."""
        return self.cta_of(lane) // self.topology.cluster_size

    # Barriers --------------------------------------------------------------------------------------------------------

    def release(self, rows: Array, group: Group) -> Array:
        """The rows (by CTA slot) of a barrier after a group has arrived at it."""
        released = self.clocks.released(group, self.tick())
        return np.maximum(self.clocks.fit(rows), released)

    def release_fenced(self, rows: Array, group: Group) -> Array:
        """The rows after a relaxed arrival at a cluster's barrier: it releases what its threads had fenced before."""
        rows = self.clocks.fit(rows)
        for lane in group.indices.tolist():
            if (fenced := self.releases.fenced(lane, CLUSTER)) is not None:  # fences are cumulative
                known = rows[:, self.topology.cta[lane]]
                np.maximum(known, self.clocks.fit(fenced), out=known)
        self.machine.mbarriers.release_initialised(rows, group.indices)
        return rows

    def met(self, ctas: Mask) -> None:
        """All threads of these CTAs have met at a barrier."""
        self._floor[ctas] = self.tick()

    def proxy_fence(self, group: Group, spaces: Sequence[str]) -> None:
        """fence.proxy.async of shared memory, global memory or both."""
        if self.traits.asynchronous:
            self.clocks.fence_proxies(group, self.tick(), spaces)

    # Reports ---------------------------------------------------------------------------------------------------------

    def report(
        self,
        kind: str,
        key: tuple[Hashable, ...],
        message: str,
        sites: tuple[int, ...],
        group: Group,
        address: int | None,
    ) -> None:
        """Add a report, once for its sites and key."""
        describe, name = self.machine.describe, self.machine.name

        def make() -> Report:
            return Report(kind, message, tuple(map(describe, sites)), name(group).rstrip(","), address)

        self.state.reports.add((kind, *sites, *key), make)

    def instruction(self, site: int) -> Instruction:
        """The instruction with this index."""
        return self.machine.program.entry.instructions[site]

    def name_of(self, column: int, cta: int, cluster: int | None = None) -> str:
        """Who a column belongs to, as CTA slot `cta` sees it, or of another cluster by its number in the grid."""
        if cluster is not None:
            size, (rank, thread) = self.topology.cluster_size, divmod(column, self.topology.threads)
            if rank < size:
                return f"thread {thread} of CTA {cluster * size + rank}"
            return f"a bulk store of CTA {cluster}" if size == 1 else f"a bulk store of cluster {cluster}"
        key = self.clocks.owner_of(column)
        if key is None:
            rank, thread = divmod(column, self.topology.threads)
            first = cta // self.topology.cluster_size * self.topology.cluster_size
            return f"thread {thread} of CTA {int(self.machine.cta_numbers[first + rank])}"
        assert isinstance(key, tuple)
        who = {
            "init": "the mbarrier at",
            "mbarrier": "a copy that signals the mbarrier at",
            "wgmma": "a wgmma of warpgroup",
            "bulk": "a bulk store of thread",
            "store": "a cp.async, st.async or red.async that signals the mbarrier at",
            "bulk write": "a bulk store of thread",
        }[key[0]]
        return f"{who} {self.machine.shared(key[1]) if who.endswith(' at') else key[1]}"

    def shared_address(self, where: int) -> int:
        """An offset of flat shared memory as the CTA addresses it."""
        return where % self.topology.shared_stride

    def _conflict(self, kind: str, site: int, lane: int, access: int, address: int, other: int | None) -> None:
        """Report an access that conflicts with an earlier one; other: the cluster of that, None for the lane's own."""
        column, time, past = (int(part(np.array(access))) for part in (column_of, time_of, site_of))
        asynchronous = other is None and (column >= self.clocks.base or time == NEVER)
        rule = "race"
        if asynchronous:
            rule = "read-before-wait" if kind == "ld" else "overwrite-before-wait"
        if self.traits.mbarriers[past]:
            rule = "mbarrier-access"
        who = self.name_of(column, int(self.topology.cta[lane]), other)
        if column < self.clocks.base and time == NEVER:
            who = f"a cp.async of {who}"
        verb = {"ld": "reads", "st": "writes", "atom": "updates", "copy": "writes"}[kind]
        does = accesses(rule, self.instruction(past), asynchronous=False)
        shared = address < self.topology.shared_stride
        place = self.machine.shared(address) if shared else f"address {address:#x}"
        message = f"{self.machine.describe(site)} {verb} {place}, which {who} {does}"
        if self.traits.strong[[site, past]].all():
            message += ", and the scope of one of the two does not include the other thread"
        elif rule == "race" and site != past and column < self.clocks.base:
            message += f": {self._remedy(lane, column, other)} must stand between the two"
        self.report(rule, (), message, (site, past), self.topology.group(np.array([lane])), address)

    def _remedy(self, lane: int, column: int, other: int | None) -> str:
        """What orders an access of a lane after one of a thread by its column."""
        if other is not None:
            return "a release and an acquire of .gpu scope, such as a flag with __threadfence() on either side,"
        rank, thread = divmod(column, self.topology.threads)
        if rank != self.topology.cta[lane] % self.topology.cluster_size:
            return "a barrier of the cluster"
        within_warp = thread // WARP == self.topology.thread[lane] // WARP
        return f"a barrier, {'at least __syncwarp()' if within_warp else 'such as __syncthreads()'},"

    def _uninitialised(self, site: int, lanes: Indices, where: Indices, writes: Array) -> None:
        first = int(np.flatnonzero((writes == 0).any(axis=1))[0])
        address = self.shared_address(int(where[first]))
        message = f"{self.machine.describe(site)} reads {self.machine.shared(address)}, which nobody has written"
        self.report(
            "uninitialised-shared", (), message, (site,), self.topology.group(lanes[first : first + 1]), address
        )
