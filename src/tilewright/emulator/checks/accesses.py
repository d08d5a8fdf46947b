"""The checks of accesses by threads: an access that is not ordered after a conflicting one is reported.

Shadow memory records the accesses, and vector clocks record which thread knows of which. An access conflicts with an
earlier one if it does not know of it. Asynchronous operations must know of ordinary writes past a proxy fence
(memory-rules.md).
"""

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.lifetimes import LifetimeChecks
from tilewright.emulator.checks.releases import Releases
from tilewright.emulator.checks.reporting.rules import accesses
from tilewright.emulator.checks.shadow import NEVER, GlobalShadow, column_of, pack, site_of, time_of, until
from tilewright.emulator.lanes import WARP, Array, Group, Indices, Mask
from tilewright.emulator.memory import GLOBAL_BASE, FlatMemory
from tilewright.emulator.program.traits import DEVICE


class AccessChecks:
    """The checks of a wave's accesses to shared and global memory."""

    def __init__(self, ground: Ground, lifetimes: LifetimeChecks, releases: Releases) -> None:
        self._ground, self._lifetimes, self._releases = ground, lifetimes, releases
        self._empty: dict[int, int] = {}  # the first address without a value that each load of shared memory has found

    def access(self, kind: str, space: str, site: int, lanes: Indices, where: Indices, width: int) -> None:
        """Check a ld, st or atom of lanes at flat offsets of shared or global memory."""
        if self._ground.traits.strong[site]:
            self._releases.access(kind, space, site, lanes, where)
            if kind != "ld" and self._ground.traits.scopes[site] < DEVICE:
                self._require_scope(kind, space, site, lanes, where)
        if space == "global":
            self._access_global(kind, site, lanes, where, width)
        else:
            self.access_shared(kind, site, lanes, where, width)

    def access_shared(
        self, kind: str, site: int, lanes: Indices, where: Indices, width: int, agents: Indices | None = None
    ) -> None:
        """Check ordinary accesses of lanes to shared memory; `kind` is "copy" for cp.async, which writes later.

        agents: the columns of the agents that access on behalf of the lanes, until an mbarrier signals completion.
        """
        shadow, now = self._ground.shared, self._ground.tick()
        cells = shadow.cells(where, width)
        cta, target = self._ground.topology.cta[lanes], where // self._ground.topology.shared_stride
        remote = cta != target
        floor = until(np.where(remote, 0, self._ground.floor[cta]))[:, None]
        writes = shadow.writes[cells]
        if kind in ("ld", "atom") and not writes.all() and "exch" not in self._ground.words.modifiers(site):
            self._find_unwritten(kind, site, lanes, where, writes == 0)
        self._require_order(kind, site, lanes, cells, writes, writes > floor)
        reads = kind == "ld"
        if not reads:
            latest = shadow.latest[cells]
            if (latest > floor).any():
                for slot in (*shadow.reads, shadow.replaced):
                    self._require_order(kind, site, lanes, cells, slot[cells], slot[cells] > floor, reads=True)
            for slot in shadow.agent_reads.values():
                self._require_order(kind, site, lanes, cells, slot[cells], slot[cells] > 0, reads=True)
        columns = self._ground.clocks.column[lanes] if agents is None else agents
        access = pack(NEVER if kind == "copy" else now, columns, site, kind == "copy")
        foreign = remote | (agents is not None)
        if foreign.any():
            access = np.where(foreign, pack(now, columns, site, True), access)
            offsets = where[foreign] % self._ground.topology.shared_stride
            self._lifetimes.touch(site, target[foreign], columns[foreign], offsets, now)
        if reads:
            slots = np.where(remote, shadow.slots - 1, self._ground.topology.thread[lanes] // WARP)
            shadow.mark_read(slots, cells, access[:, None], floor)
        else:
            shadow.writes[cells] = access[:, None]

    def stored(
        self, site: int, group: Group, memory: FlatMemory, where: Indices, values: list[Array], chosen: Indices | None
    ) -> None:
        """Check after a store: a lane that finds another value in its place has met another lane there."""
        lost = memory.differs(where, values)
        if self._ground.traits.strong[site] or not lost.any():
            return
        lanes = group.indices if chosen is None else group.indices[chosen]
        lost = np.broadcast_to(lost, lanes.shape)
        lane, place = int(lanes[lost][0]), int(np.broadcast_to(where, lanes.shape)[lost][0])
        if memory is self._ground.wave.access.shared:
            access, other = int(self._ground.shared.writes[place // self._ground.shared.cell]), None
            address = self._ground.shared_address(place)
        else:
            shadow = self._ground.shadow_of(place)
            cell = (place - shadow.start) // shadow.cell
            access, cluster = int(shadow.writes[cell]), int(shadow.write_clusters[cell])
            other = cluster if cluster != self._ground.cluster_of(lane) else None
            address = GLOBAL_BASE + place
        self._conflict("st", site, lane, access, address, other)

    def copied(self, site: int, lanes: Indices, where: Indices, width: int, columns: Array | None = None) -> None:
        """Record that cp.async of lanes are over: they now count as ordinary writes of lanes or of agents.

        columns: the columns of the agents, None for the lanes.
        """
        now, cells = self._ground.tick(), self._ground.shared.cells(where, width)
        pending = pack(NEVER, self._ground.clocks.column[lanes], site, True)[:, None]
        over = pack(now, self._ground.clocks.column[lanes], site) if columns is None else pack(now, columns, site, True)
        self._ground.shared.writes[cells] = np.where(
            self._ground.shared.writes[cells] == pending, over[:, None], self._ground.shared.writes[cells]
        )

    def _access_global(self, kind: str, site: int, lanes: Indices, where: Indices, width: int) -> None:
        shadow = self._ground.shadow_of(int(where[0]))
        inside = (where >= shadow.start) & (where < shadow.end)
        if not inside.all():
            self._access_global(kind, site, lanes[~inside], where[~inside], width)
            lanes, where = lanes[inside], where[inside]
        now, cells = self._ground.tick(), shadow.cells(where, width)
        clusters = self._ground.clusters_of(lanes)[:, None]
        access = pack(now, self._ground.clocks.column[lanes], site)[:, None]
        if shadow.written:
            for past, past_clusters in shadow.past_writes():
                writes = past[cells]
                if writes.any():
                    self._require_order(kind, site, lanes, cells, writes, writes > 0, shadow, past_clusters[cells])
        if kind == "ld":
            if shadow.written and self._ground.traits.read_only[site]:
                self._require_read_only(site, lanes, where, shadow.writes[cells])
            shadow.read(cells, access, clusters)
            return
        if self._ground.traits.bulk and not self._ground.state.global_proxies:
            self._ground.state.global_proxies = True
            self._ground.clocks.track_global_writes()
        shadow.expect_writes()
        for past, past_clusters in zip(shadow.reads, shadow.read_clusters, strict=True):
            reads = past[cells]
            if reads.any():
                self._require_order(kind, site, lanes, cells, reads, reads > 0, shadow, past_clusters[cells])
        narrow = bool(self._ground.traits.strong[site] and self._ground.traits.scopes[site] < DEVICE)
        shadow.write(cells, access, clusters, narrow)

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
        """Report the past accesses that are `late` and that the lanes do not know of.

        shadow, clusters: the shadow of global memory and the clusters of the past accesses; None for shared memory.
        reads: the past accesses are reads of shared memory, which may be overwritten once they are over.
        """
        if not late.any():
            return
        row, place = np.nonzero(late)
        access, lane = past[row, place], lanes[row]
        column, time = column_of(access), time_of(access)
        foreign = np.zeros(lane.size, np.bool_)
        if clusters is not None:
            past_clusters = clusters[row, place]
            foreign = past_clusters != self._ground.clusters_of(lane)
        own = np.where(foreign, 0, column)
        known = self._ground.clocks.overwritable(lane, own) if reads else self._ground.clocks.facts[KNOWN, lane, own]
        unordered = (known < time) & ((column != self._ground.clocks.column[lane]) | (time == NEVER))
        if foreign.any():
            known = self._releases.knows(lane[foreign], past_clusters[foreign], column[foreign], time[foreign])
            unordered[foreign] = ~known
        if self._ground.traits.strong[site]:
            unordered &= ~self._releases.morally_strong(site, lane, site_of(access), column, foreign)
        if self._ground.traits.mbarriers[site]:  # these may share a cell
            unordered &= ~self._ground.traits.mbarriers[site_of(access)]
        for index in np.flatnonzero(unordered)[:: max(int(unordered.sum()) // 8, 1)].tolist():
            where = int(cells[row[index], place[index]]) * (self._ground.shared.cell if shadow is None else shadow.cell)
            address = self._ground.shared_address(where) if shadow is None else GLOBAL_BASE + shadow.start + where
            other = int(past_clusters[index]) if foreign[index] else None
            self._conflict(kind, site, int(lane[index]), int(access[index]), address, other)

    def _require_read_only(self, site: int, lanes: Indices, where: Indices, writes: Array) -> None:
        """Report a non-coherent load of memory that the launch writes, before or after."""
        written = writes > 0
        if not written.any():
            return
        row, place = (int(index[0]) for index in np.nonzero(written))
        address = GLOBAL_BASE + int(where[row])
        message = (
            f"{self._ground.words.describe(site)} reads address {address:#x} past the caches that writes reach, and "
            "this launch has written there: load it with ld.global, not by __ldg or const __restrict__"
        )
        group = self._ground.topology.group(lanes[row : row + 1])
        self._ground.report("read-only-load", message, (site, int(site_of(writes[row, place]))), group, address)

    def _require_scope(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """Report lanes of one instruction that access the same place but lie outside the instruction's scope."""
        for first, second in self._releases.meetings_beyond_scope(site, lanes, where)[:1]:
            access = int(pack(self._ground.state.now, self._ground.clocks.column[lanes[first]], site))
            lane, cluster = int(lanes[second]), self._ground.cluster_of(int(lanes[first]))
            other = cluster if cluster != self._ground.cluster_of(lane) else None
            address = (
                GLOBAL_BASE + int(where[second])
                if space == "global"
                else self._ground.shared_address(int(where[second]))
            )
            self._conflict(kind, site, lane, access, address, other)

    def _conflict(self, kind: str, site: int, lane: int, access: int, address: int, other: int | None) -> None:
        """Report an access that conflicts with an earlier one.

        other: the cluster of the earlier access, None for the lane's own.
        """
        column, time, past = (int(part(np.array(access))) for part in (column_of, time_of, site_of))
        asynchronous = other is None and (column >= self._ground.clocks.base or time == NEVER)
        rule = "race"
        if asynchronous:
            rule = "read-before-wait" if kind == "ld" else "overwrite-before-wait"
        if self._ground.traits.mbarriers[past]:
            rule = "mbarrier-access"
        who = self._ground.name_of(column, int(self._ground.topology.cta[lane]), other)
        if column < self._ground.clocks.base and time == NEVER:
            who = f"a cp.async of {who}"
        verb = {"ld": "reads", "st": "writes", "atom": "updates", "copy": "writes"}[kind]
        does = accesses(rule, self._ground.words.instruction(past), asynchronous=False)
        shared = address < self._ground.topology.shared_stride
        place = self._ground.words.shared(address) if shared else f"address {address:#x}"
        message = f"{self._ground.words.describe(site)} {verb} {place}, which {who} {does}"
        if self._ground.traits.strong[[site, past]].all():
            message += ", and the scope of one of the two does not include the other thread"
        elif rule == "race" and site != past and column < self._ground.clocks.base:
            message += f": {self._remedy(lane, column, other)} must stand between the two"
        self._ground.report(rule, message, (site, past), self._ground.topology.group(np.array([lane])), address)

    def _remedy(self, lane: int, column: int, other: int | None) -> str:
        """The remedy: what orders an access of a lane after one of a thread, given by its column."""
        if other is not None:
            return "a release and an acquire of .gpu scope, such as a flag with __threadfence() on either side,"
        rank, thread = divmod(column, self._ground.topology.threads)
        if rank != self._ground.topology.cta[lane] % self._ground.topology.cluster_size:
            return "a barrier of the cluster"
        if thread // WARP != self._ground.topology.thread[lane] // WARP:
            return "a barrier, such as __syncthreads(),"
        if self._ground.topology.threads <= WARP:
            return "a barrier, at least __syncwarp(),"
        return "a barrier, __syncwarp() if only this warp shares it, else __syncthreads(),"

    def _find_unwritten(self, kind: str, site: int, lanes: Indices, where: Indices, unwritten: Mask) -> None:
        """Report an atomic of memory that nothing has written; a load may leave its registers unused."""
        first = int(np.flatnonzero(unwritten.any(axis=1))[0])
        address = self._ground.shared_address(int(where[first]))
        if kind == "ld":
            self._ground.wave.access.unwritten = unwritten
            self._empty.setdefault(site, address)
            return
        words = self._ground.words
        message = f"{words.describe(site)} reads {words.shared(address)}, which has not been written"
        group = self._ground.topology.group(lanes[first : first + 1])
        self._ground.report("uninitialized-shared", message, (site,), group, address)

    def used(self, site: int, group: Group, load: int) -> None:
        """Report the use of what a load found in shared memory that nothing had written."""
        words, address = self._ground.words, self._empty[load]
        message = (
            f"{words.describe(site)} uses what {words.describe(load)} reads from {words.shared(address)}, which has "
            "not been written"
        )
        self._ground.report("uninitialized-shared", message, (site, load), group, address)
