"""The checks of asynchronous operations: mbarriers, bulk copies, wgmma. Part of the Checker's work, by agent."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.clocks import KNOWN, VISIBLE
from tilewright.emulator.lanes import WARP, WARPGROUP, Array, Indices, Mask
from tilewright.emulator.shadow import AGENT_SLOTS, column_of, is_asynchronous, pack, site_of, time_of

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class MbarrierChecks:
    """What one shared-memory offset's mbarriers, of all resident CTAs, carry from arrivals to waits.

    pending: rows of the current phase's arrivals; done: of the last completed phase. initialised, fenced: when the
    mbarrier was initialised and when that was fenced, by the lane `initialiser`.
    """

    def __init__(self, checker: "Checker", offset: int) -> None:
        ctas = checker.topology.ctas
        self._checker, self.offset = checker, offset
        self.column = checker.clocks.agent(("mbarrier", offset), checker.topology.cluster_size)
        self._pending, self._done = checker.clocks.nothing(ctas), checker.clocks.nothing(ctas)
        self._initialiser = np.zeros(ctas, np.int64)
        self._initialised, self._fenced = np.zeros(ctas, np.int64), np.zeros(ctas, np.int64)
        self._site = 0
        self._used = np.zeros((ctas, checker.clocks.base), np.int64)  # when each thread of the cluster last used it

    def columns(self, cta: Indices) -> Indices:
        """The column of each CTA's mbarrier."""
        return self.column + cta % self._checker.topology.cluster_size

    def init(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.init."""
        self._site = site
        self._initialiser[cta], self._initialised[cta] = lanes, self._checker.tick()
        self._fenced[cta] = self._used[cta] = 0

    def invalidate(self, site: int, lanes: Indices, cta: Indices) -> None:
        """mbarrier.inval: whoever has used it must be known to be done."""
        clocks = self._checker.clocks
        used = self._used[cta]
        late = used > clocks.facts[KNOWN, lanes, : clocks.base]
        late[np.arange(lanes.size), clocks.column[lanes]] = False
        if late.any():
            first, column = (int(index[0]) for index in np.nonzero(late))
            message = (
                f"{self._checker.machine.describe(site)} ends the mbarrier at shared address {self.offset:#x}, which "
                f"{self._checker.name_of(column, int(cta[first]))} uses without order"
            )
            group = self._checker.topology.group(np.array([lanes[first]]))
            self._checker.report("race", (), message, (site,), group, self.offset)

    def fence(self, lanes: Indices) -> None:
        """fence.mbarrier_init or fence.proxy.async by some lanes."""
        now = self._checker.tick()
        self._fenced[np.isin(self._initialiser, lanes) & (self._fenced == 0) & (self._initialised > 0)] = now

    def use(self, site: int, lanes: Indices, cta: Indices) -> None:
        """Lanes use the mbarriers of CTAs, themselves or through a copy that will signal them."""
        checker = self._checker
        clocks, topology = checker.clocks, checker.topology
        own = lanes == self._initialiser[cta]
        needs_fence = topology.cta[lanes] != cta
        made = np.where(needs_fence, self._fenced[cta], self._initialised[cta])
        known = clocks.facts[KNOWN, lanes, clocks.column[self._initialiser[cta]]]
        bad = np.where(needs_fence & (made == 0), True, ~own & (known < made))
        if bad.any():
            first = int(bad.argmax())
            lane = int(lanes[first])
            missing = "a fence" if needs_fence[first] and not made[first] else "a barrier"
            message = (
                f"{checker.machine.describe(site)} uses the mbarrier at shared address {self.offset:#x}, and {missing} "
                "is missing since it was initialised"
            )
            group = topology.group(np.array([lane]))
            checker.report("mbarrier-init", (), message, (site, self._site), group, self.offset)
        now = checker.tick()
        self._used[cta, clocks.column[lanes]] = now
        for index in np.flatnonzero(topology.cta[lanes] != cta).tolist():
            checker.touch(int(cta[index]), clocks.column[lanes[index]], now)

    def arrive(self, lanes: Indices, cta: Indices) -> None:
        """Lanes arrive at the mbarriers of CTAs."""
        clocks = self._checker.clocks
        now = self._checker.tick()
        facts = clocks.facts[:, lanes]
        facts[KNOWN, np.arange(lanes.size), clocks.column[lanes]] = now
        self._pending = clocks.fit(self._pending)
        order = np.argsort(cta, kind="stable")
        slots, starts = np.unique(cta[order], return_index=True)
        joined = np.maximum.reduceat(facts[:, order], starts, axis=1)
        self._pending[:, slots] = np.maximum(self._pending[:, slots], joined)

    def complete(self, over: Mask) -> None:
        """The current phase ends in some CTAs: copies that signalled it have landed."""
        clocks = self._checker.clocks
        self._pending, self._done = clocks.fit(self._pending), clocks.fit(self._done)
        self._done[:, over] = self._pending[:, over]
        self._pending[:, over] = 0
        ctas = np.flatnonzero(over)
        self._done[KNOWN, ctas, self.columns(ctas)] = self._checker.tick()

    def wait(self, lanes: Indices, cta: Indices) -> None:
        """Lanes go on, having seen the last phase end."""
        clocks = self._checker.clocks
        self._done = clocks.fit(self._done)
        clocks.facts[:, lanes] = np.maximum(clocks.facts[:, lanes], self._done[:, cta])


class AgentChecks:
    """Bulk copies and wgmma."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker

    def land(self, site: int, lane: int, start: int, nbytes: int, barrier: MbarrierChecks, signal_cta: int) -> None:
        """A bulk copy, issued by a lane, to flat shared memory, that signals the mbarrier of a CTA."""
        checker, shadow = self._checker, self._checker.shared
        clocks, topology = checker.clocks, checker.topology
        now = checker.tick()
        cells = slice(start // shadow.cell, -(-(start + nbytes) // shadow.cell))
        rows = clocks.facts[:, lane].copy()
        rows[KNOWN, clocks.column[lane]] = now
        self._require_seen("overwrite-before-wait", site, lane, rows, cells, shadow.writes[cells], "writes")
        for reads in (shadow.latest, *shadow.reads):
            past = reads[cells]
            if past.any():
                late = (rows[KNOWN][column_of(past)] < time_of(past)) & (past > 0)
                self._report_first("overwrite-before-wait", site, lane, cells, past, late, "writes")
        target = start // topology.shared_stride
        column = int(barrier.columns(np.array(signal_cta)))
        shadow.writes[cells] = pack(now, column, site, True)
        shadow.latest[cells] = 0
        shadow.reads[:, cells] = 0
        if target != topology.cta[lane] or target != signal_cta:
            checker.touch(target, clocks.column[lane], now)
        checker.touch(target, column, now)

    def read_by_bulk(self, site: int, lane: int, start: int, nbytes: int) -> int:
        """A bulk store of a lane reads flat shared memory; returns when, for the wait."""
        checker, shadow = self._checker, self._checker.shared
        thread = int(checker.topology.thread[lane])
        now = checker.tick()
        cells = slice(start // shadow.cell, -(-(start + nbytes) // shadow.cell))
        rows = checker.clocks.facts[:, lane].copy()
        self._require_seen("read-before-wait", site, lane, rows, cells, shadow.writes[cells], "reads")
        column = self._column("bulk", thread, int(checker.topology.cta[lane]))
        shadow.reads[shadow.slots + thread // WARP % AGENT_SLOTS, cells] = pack(now, column, site, True)
        return now

    def read_by_wgmma(self, site: int, lanes: Indices, chunks: Indices) -> int:
        """A wgmma of the lanes of a warpgroup reads 16-byte chunks of flat shared memory; returns when."""
        checker, shadow = self._checker, self._checker.shared
        warpgroup = int(checker.topology.thread[lanes[0]]) // WARPGROUP
        now = checker.tick()
        cells = np.unique(chunks)
        if shadow.cell < 16:
            count = 16 // shadow.cell
            cells = (cells[:, None] * count + np.arange(count)).reshape(-1)
        rows = checker.clocks.facts[:, lanes[::WARP]].min(axis=1)
        self._require_seen("read-before-wait", site, int(lanes[0]), rows, cells, shadow.writes[cells], "reads")
        column = self._column("wgmma", warpgroup, int(checker.topology.cta[lanes[0]]))
        shadow.reads[shadow.slots + warpgroup % AGENT_SLOTS, cells] = pack(now, column, site, True)
        return now

    def retire(self, agent: str, number: int, lanes: Indices, time: int) -> None:
        """Lanes of one CTA know that what an agent of theirs did until a time is over."""
        clocks = self._checker.clocks
        column = self._column(agent, number, int(self._checker.topology.cta[lanes[0]]))
        clocks.facts[KNOWN, lanes, column] = np.maximum(clocks.facts[KNOWN, lanes, column], time)

    def _column(self, agent: str, number: int, cta: int) -> int:
        size = self._checker.topology.cluster_size
        return self._checker.clocks.agent((agent, number), size) + cta % size

    def _require_seen(
        self, rule: str, site: int, lane: int, rows: Array, cells: slice | Indices, writes: Array, verb: str
    ) -> None:
        """Report writes that an asynchronous operation does not see."""
        checker = self._checker
        if verb == "reads" and not writes.all():
            self._report_first("uninitialised-shared", site, lane, cells, writes, writes == 0, verb)
        column, time = column_of(writes), time_of(writes)
        agents = column >= checker.clocks.base
        fact = np.where(agents, rows[KNOWN][column], rows[VISIBLE][column])
        late = (fact < time) & (writes > 0)
        if late.any():
            known = rows[KNOWN][column] >= time
            own = column == checker.clocks.column[lane]
            for kind, mask in (
                (rule, late & agents),
                ("race", late & ~agents & ~known & ~own),
                ("proxy-fence", late & ~agents & (known | own)),
            ):
                self._report_first(kind, site, lane, cells, writes, mask, verb)

    def _report_first(
        self, kind: str, site: int, lane: int, cells: slice | Indices, past: Array, mask: Array, verb: str
    ) -> None:
        if not mask.any():
            return
        checker = self._checker
        index = int(mask.argmax())
        cell = cells.start + index if isinstance(cells, slice) else int(cells[index])
        address = checker.shared_address(cell * checker.shared.cell)
        cta = int(checker.topology.cta[lane])
        access = past[index]
        if not access:
            message = f"{checker.machine.describe(site)} {verb} shared address {address:#x}, which nobody has written"
            sites: tuple[int, ...] = (site,)
        else:
            who = checker.name_of(int(column_of(access)), cta)
            done = "accesses asynchronously" if is_asynchronous(access) else "accesses"
            message = f"{checker.machine.describe(site)} {verb} shared address {address:#x}, which {who} {done}"
            sites = (site, int(site_of(access)))
        checker.report(kind, (), message, sites, checker.topology.group(np.array([lane])), address)
