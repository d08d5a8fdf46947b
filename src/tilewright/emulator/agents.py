"""The checks of asynchronous operations on shared memory: mbarriers, bulk copies, wgmma. By agent."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.clocks import KNOWN
from tilewright.emulator.errors import LaunchError
from tilewright.emulator.lanes import WARP, WARPGROUP, Array, Group, Indices, Mask
from tilewright.emulator.rules import accesses
from tilewright.emulator.shadow import NEVER, column_of, is_asynchronous, pack, site_of, time_of
from tilewright.emulator.traits import CLUSTER, Traits

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

MBARRIER_BYTES = 8
_CHUNK = 16
"""Bytes of what the chunks of a wgmma operand are counted in."""


class MbarrierChecks:
    """What one shared-memory offset's mbarriers, of all resident CTAs, carry from arrivals to waits.

    pending: rows of the current phase's arrivals; done: of the completed phases; each (kinds, 2, ctas, columns), of
    arrivals from the mbarrier's own CTA and from peers. initialised: when the mbarrier was initialised, by the lane
    `initialiser`; fenced: when that was fenced, and published: when by fence.mbarrier_init. Who knows of the
    initialisation or its fence has learned of it in a column of its own.
    """

    def __init__(self, checker: "Checker", offset: int) -> None:
        ctas = checker.topology.ctas
        self._checker, self.offset = checker, offset
        self.column = checker.clocks.agent(("mbarrier", offset), checker.topology.cluster_size)
        self._made = checker.clocks.agent(("init", offset), checker.topology.cluster_size)
        self._pending, self._done = (np.stack([checker.clocks.nothing(ctas)] * 2, axis=1) for _ in range(2))
        self._peers = False  # whether any have arrived
        self._initialiser = np.zeros(ctas, np.int64)
        self._initialised, self._fenced, self._published = (np.zeros(ctas, np.int64) for _ in range(3))
        self._site = 0
        self._copies: int | None = None
        self._used = np.zeros((ctas, checker.clocks.base), np.int64)  # when each thread of the cluster last used it

    @property
    def _place(self) -> str:
        return self._checker.machine.shared(self.offset)

    def require_room(self, site: int, count: int) -> None:
        """End the launch where so many mbarriers, most of them made in a loop, take more of the host than it may."""
        checker, nbytes = self._checker, self._pending.nbytes + self._done.nbytes + self._used.nbytes
        if count * nbytes + checker.clocks.facts.nbytes > checker.state.most_bytes:
            raise LaunchError(
                f"{checker.machine.describe(site)} initialises the {count}th mbarrier of {self._used.shape[0]} CTAs "
                f"that run together: to check so many takes more than {checker.state.most_bytes} bytes; launch fewer "
                "CTAs, or on a Device with checks=False"
            )

    def columns(self, cta: Indices) -> Indices:
        """The column of each CTA's mbarrier."""
        return self.column + cta % self._checker.topology.cluster_size

    def init(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.init."""
        self._site = site
        self._initialiser[cta], self._initialised[cta] = lanes, self._checker.tick()
        self._fenced[cta] = self._published[cta] = self._used[cta] = 0
        self._remember(cta, self._initialised)
        self._checker.access_shared("st", site, lanes, self._places(cta), MBARRIER_BYTES)
        self._occupy(site, cta, NEVER)

    def _places(self, cta: Indices) -> Indices:
        """Where the mbarriers of some CTAs lie in flat shared memory."""
        return cta * self._checker.topology.shared_stride + self.offset

    def _occupy(self, site: int, cta: Indices, until: int) -> None:
        """Nothing else may access the mbarriers of some CTAs until a time that it must know of."""
        column = self._made + cta % self._checker.topology.cluster_size
        shadow = self._checker.shared
        cells = shadow.cells(self._places(cta), MBARRIER_BYTES)
        own = (until == NEVER) | (column_of(shadow.writes[cells]) == column[:, None])  # not of a neighbour in a cell
        shadow.writes[cells] = np.where(own, pack(until, column, site, True)[:, None], shadow.writes[cells])

    def invalidate(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.inval: whoever has used it must be known to be done."""
        clocks, now = self._checker.clocks, self._checker.tick()
        clocks.facts[KNOWN, lanes, self._made + cta % self._checker.topology.cluster_size] = now
        self._occupy(site, cta, now)
        used = self._used[cta]
        late = used > clocks.overwritable(lanes[:, None], np.arange(clocks.base))
        late[np.arange(lanes.size), clocks.column[lanes]] = False
        if late.any():
            first, column = (int(index[0]) for index in np.nonzero(late))
            message = (
                f"{self._checker.machine.describe(site)} ends the mbarrier at {self._place}, which "
                f"{self._checker.name_of(column, int(cta[first]))} uses without order"
            )
            group = self._checker.topology.group(np.array([lanes[first]]))
            self._checker.report("race", (), message, (site,), group, self.offset)

    def fence(self, lanes: Indices, publishes: bool) -> None:
        """fence.mbarrier_init, which publishes, or fence.proxy.async by some lanes."""
        now, own = self._checker.tick(), np.isin(self._initialiser, lanes) & (self._initialised > 0)
        self._fenced[own & (self._fenced == 0)] = now
        if publishes:
            self._published[own & (self._published == 0)] = now
        self._remember(np.flatnonzero(own), np.maximum(self._fenced, self._published))

    def _remember(self, cta: Indices, times: Indices) -> None:
        """The initialisers of some CTAs' mbarriers know of what they did to these."""
        column = self._made + cta % self._checker.topology.cluster_size
        self._checker.clocks.facts[KNOWN, self._initialiser[cta], column] = times[cta]

    def release_initialised(self, rows: Array, lanes: Indices) -> None:
        """Add to the rows of a barrier the initialisations that lanes, who arrive, have published by a fence."""
        cta = np.flatnonzero(np.isin(self._initialiser, lanes) & (self._published > 0))
        column = self._made + cta % self._checker.topology.cluster_size
        rows[KNOWN, cta, column] = np.maximum(rows[KNOWN, cta, column], self._published[cta])

    def use(self, site: int, lanes: Indices, cta: Indices, by_copy: bool = False) -> None:
        """Lanes use the mbarriers of CTAs, themselves or through a copy that will signal them."""
        checker = self._checker
        clocks, topology = checker.clocks, checker.topology
        needs_fence = topology.cta[lanes] != cta
        made = np.where(needs_fence, self._fenced[cta], self._initialised[cta])
        known = clocks.facts[KNOWN, lanes, self._made + cta % topology.cluster_size]
        bad = (made == 0) | (known < made)
        if bad.any():
            first = int(bad.argmax())
            lane = int(lanes[first])
            missing = "a fence" if needs_fence[first] and not made[first] else "a barrier"
            message = (
                f"{checker.machine.describe(site)} uses the mbarrier at {self._place}, and {missing} "
                "is missing since it was initialised"
            )
            group = topology.group(np.array([lane]))
            checker.report("mbarrier-init", (), message, (site, self._site), group, self.offset)
        now, remote = checker.tick(), topology.cta[lanes] != cta
        self._used[cta, clocks.column[lanes]] = now
        if not by_copy:  # whose end the phase tells
            checker.lifetimes.touch(site, cta[remote], clocks.column[lanes[remote]], self.offset, now)

    def arrive(self, lanes: Indices, cta: Indices, scope: int) -> None:
        """Lanes arrive at the mbarriers of CTAs."""
        clocks = self._checker.clocks
        now = self._checker.tick()
        self._pending = clocks.fit(self._pending)
        remote = self._checker.topology.cta[lanes] != cta
        self._peers |= bool(remote.any())
        for peers, these in enumerate((~remote, remote)):
            if not these.any():
                continue
            facts, slots = clocks.facts[:, lanes[these]], cta[these]
            facts[KNOWN, np.arange(slots.size), clocks.column[lanes[these]]] = now
            order = np.argsort(slots, kind="stable")
            slots, starts = np.unique(slots[order], return_index=True)
            joined = np.maximum.reduceat(facts[:, order], starts, axis=1)
            if peers and scope < CLUSTER:
                joined = clocks.only_over(joined)
            self._pending[:, peers, slots] = np.maximum(self._pending[:, peers, slots], joined)

    def column_of_copies(self, cta: Indices) -> Indices:
        """The columns of the cp.async, st.async and red.async that signal each CTA's mbarrier."""
        size = self._checker.topology.cluster_size
        if self._copies is None:
            self._copies = self._checker.clocks.agent(("store", self.offset), size, ordinary=True)
        return self._copies + cta % size

    def complete(self, over: Mask) -> None:
        """The current phase ends in some CTAs: copies that signalled it have landed."""
        clocks = self._checker.clocks
        self._pending, self._done = clocks.fit(self._pending), clocks.fit(self._done)
        self._done[..., over, :] = np.maximum(self._done[..., over, :], self._pending[..., over, :])
        self._pending[..., over, :] = 0
        ctas = np.flatnonzero(over)
        self._done[KNOWN, 0, ctas, self.columns(ctas)] = self._checker.tick()
        if self._copies is not None:
            columns = self.column_of_copies(ctas)
            self._done = clocks.fit(self._done)
            self._done[KNOWN, 0, ctas, columns] = self._checker.tick()

    def wait(self, group: Group, scope: int) -> None:
        """A group goes on, having seen the last phase of its CTAs' mbarriers end."""
        clocks = self._checker.clocks
        clocks.learn(group, self._done[:, 0])
        if self._peers:
            peers = self._done[:, 1]
            clocks.learn(group, peers if scope >= CLUSTER else clocks.only_over(peers))


def nbytes_of_mbarriers(traits: Traits, threads: int, cluster: int, lane: int) -> int:
    """What the rows of the mbarriers of a CTA take, as far as its program tells: each as much as those of four lanes.

    lane: what the rows of a lane take.
    """
    return traits.inits * (4 * lane + cluster * threads * np.dtype(np.int64).itemsize)


class AgentChecks:
    """Bulk copies and wgmma."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker

    def land(
        self,
        site: int,
        lanes: Indices,
        targets: Indices,
        offset: int,
        nbytes: int,
        barrier: MbarrierChecks,
        signals: Indices,
    ) -> None:
        """Bulk copies or reductions of lanes to an offset of the shared memory of `targets`, that signal mbarriers."""
        checker, shadow = self._checker, self._checker.shared
        clocks, topology = checker.clocks, checker.topology
        now = checker.tick()
        cells = slice(offset // shadow.cell, -(-(offset + nbytes) // shadow.cell))
        of_ctas: slice | Indices = targets
        if targets.size == topology.ctas and (targets == np.arange(topology.ctas)).all():
            of_ctas = slice(None)  # so that shadow memory is viewed and not copied
        rows = clocks.facts[:, lanes]
        rows[KNOWN, np.arange(lanes.size), clocks.column[lanes]] = now
        over, agents = np.maximum(rows[KNOWN], rows[clocks.over]), np.flatnonzero(~clocks.ordinary)
        rows[KNOWN][:, agents] = over[:, agents]
        place = np.arange(cells.start, cells.stop)
        verb = "updates" if checker.traits.reductions[site] else "writes"
        self._require_seen(
            "overwrite-before-wait", site, lanes, rows, place, shadow.by_cta(shadow.writes)[of_ctas, cells], verb
        )
        for reads in shadow.used_reads():
            past = shadow.by_cta(reads)[of_ctas, cells]
            if past.any():
                late = (np.take_along_axis(over, column_of(past), axis=1) < time_of(past)) & (past > 0)
                self._report_first("overwrite-before-wait", site, lanes, place, past, late, verb)
                shadow.by_cta(reads)[of_ctas, cells] = 0
        columns = barrier.columns(signals)
        shadow.by_cta(shadow.writes)[of_ctas, cells] = pack(now, columns, site, True)[:, None]
        checker.lifetimes.touch(site, targets, columns, offset, now)

    def read_by_bulk(self, site: int, lane: int, chunks: Indices) -> int:
        """A bulk store of a lane reads 16-byte chunks of its CTA's shared memory; returns when, for the wait."""
        thread, ctas = int(self._checker.topology.thread[lane]), self._checker.topology.cta[[lane]]
        now, lanes = self._checker.tick(), np.array([lane])
        rows = self._checker.clocks.facts[:, lanes]
        columns = self._columns(("bulk", thread), ctas)
        self._read(site, lanes, ctas, rows, self._cells(chunks), ("bulk", thread // WARP), columns, now)
        return now

    def read_by_copy(self, site: int, lane: int, chunks: Indices, barrier: MbarrierChecks, signal: int) -> None:
        """A bulk copy of a lane, which signals the mbarrier of a CTA, reads chunks of its own shared memory."""
        ctas, columns = self._checker.topology.cta[[lane]], barrier.columns(np.array([signal]))
        now, lanes = self._checker.tick(), np.array([lane])
        rows = self._checker.clocks.facts[:, lanes]
        self._read(site, lanes, ctas, rows, self._cells(chunks), ("mbarrier", barrier.offset), columns, now)
        self._checker.lifetimes.touch(site, ctas, columns, int(chunks[0]) * _CHUNK, now)

    def read_by_wgmma(self, site: int, lanes: Indices, chunks: Indices) -> int:
        """Wgmmas of the lanes of one warpgroup in some CTAs, (ctas, 128), read 16-byte chunks of their shared memory.

        Returns when, for the wait.
        """
        checker = self._checker
        warpgroup = int(checker.topology.thread[lanes[0, 0]]) // WARPGROUP
        now = checker.tick()
        rows = checker.clocks.facts[:, lanes[:, ::WARP]].min(axis=2)
        ctas, agent = checker.topology.cta[lanes[:, 0]], ("wgmma", warpgroup)
        self._read(site, lanes[:, 0], ctas, rows, self._cells(chunks), agent, self._columns(agent, ctas), now)
        return now

    def _cells(self, chunks: Indices) -> Indices:
        count = _CHUNK // self._checker.shared.cell
        cells: Indices = (chunks[:, None] * count + np.arange(count)).reshape(-1)
        return cells

    def _read(
        self,
        site: int,
        lanes: Indices,
        ctas: Indices,
        rows: Array,
        cells: Indices,
        reader: Hashable,
        columns: Indices,
        now: int,
    ) -> None:
        """Agents of one kind, an agent in each of some CTAs, read cells of their shared memory."""
        shadow = self._checker.shared
        writes = shadow.by_cta(shadow.writes)[ctas[:, None], cells]
        self._require_seen("read-before-wait", site, lanes, rows, cells, writes, "reads")
        reads = shadow.by_cta(shadow.reads_of(reader))
        reads[ctas[:, None], cells] = pack(now, columns, site, True)[:, None]

    def retire(self, agent: str, number: int, lanes: Indices, time: int) -> None:
        """Lanes of one CTA know that what an agent of theirs did until a time is over."""
        clocks = self._checker.clocks
        column = int(self._columns((agent, number), self._checker.topology.cta[lanes[:1]])[0])
        clocks.facts[KNOWN, lanes, column] = np.maximum(clocks.facts[KNOWN, lanes, column], time)

    def _columns(self, agent: Hashable, ctas: Indices) -> Indices:
        """The column of each CTA's agent."""
        size = self._checker.topology.cluster_size
        return self._checker.clocks.agent(agent, size) + ctas % size

    def _require_seen(
        self, rule: str, site: int, lanes: Indices, rows: Array, cells: Indices, writes: Array, verb: str
    ) -> None:
        """Report writes (lanes, cells) that the asynchronous operations of lanes do not see."""
        checker = self._checker
        if verb != "writes" and not writes.all():
            self._report_first("uninitialised-shared", site, lanes, cells, writes, writes == 0, verb)
        column, time = column_of(writes), time_of(writes)
        agents = ~checker.clocks.ordinary[column]
        known = np.take_along_axis(rows[KNOWN], column, axis=1) >= time
        seen = known if agents.all() else np.where(
            agents, known, np.take_along_axis(rows[checker.clocks.visible], column, axis=1) >= time
        )  # fmt: skip
        late = ~seen & (writes > 0)
        if verb == "updates":
            late &= ~checker.traits.reductions[site_of(writes)]
        if late.any():
            known |= column == checker.clocks.column[lanes][:, None]
            for kind, mask in (
                (rule, late & agents),
                ("race", late & ~agents & ~known),
                ("proxy-fence", late & ~agents & known),
            ):
                self._report_first(kind, site, lanes, cells, writes, mask, verb)

    def _report_first(
        self, kind: str, site: int, lanes: Indices, cells: Indices, past: Array, mask: Array, verb: str
    ) -> None:
        if not mask.any():
            return
        checker = self._checker
        row, index = np.unravel_index(int(mask.argmax()), mask.shape)
        lane, access = int(lanes[row]), past[row, index]
        address = int(cells[index]) * checker.shared.cell
        message = f"{checker.machine.describe(site)} {verb} {checker.machine.shared(address)}, which "
        sites: tuple[int, ...] = (site,)
        if access:
            kind = "mbarrier-access" if checker.traits.mbarriers[site_of(access)] else kind
            who = checker.name_of(int(column_of(access)), int(checker.topology.cta[lane]))
            sites = (site, int(site_of(access)))
            message += f"{who} {accesses(kind, checker.instruction(sites[1]), bool(is_asynchronous(access)))}"
        else:
            message += "nobody has written"
        checker.report(kind, (), message, sites, checker.topology.group(np.array([lane])), address)
