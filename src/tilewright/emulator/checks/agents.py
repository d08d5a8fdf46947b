"""The checks of asynchronous operations on shared memory (mbarriers, bulk copies, wgmma), by agent."""

from collections.abc import Hashable

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.lifetimes import LifetimeChecks
from tilewright.emulator.checks.mbarriers import MbarrierFacts
from tilewright.emulator.checks.reporting.rules import accesses
from tilewright.emulator.checks.shadow import column_of, is_asynchronous, pack, site_of, time_of
from tilewright.emulator.lanes import WARP, WARPGROUP, Array, Indices, Mask
from tilewright.rounding import ceil_div

_CHUNK = 16
"""Chunk size in bytes; operands of wgmma and bulk stores are tracked per chunk."""


class AgentChecks:
    """The checks of a wave's bulk copies and wgmmas."""

    def __init__(self, ground: Ground, lifetimes: LifetimeChecks) -> None:
        self._ground, self._lifetimes = ground, lifetimes

    def land(
        self,
        site: int,
        lanes: Indices,
        targets: Indices,
        offset: int,
        nbytes: int,
        barrier: MbarrierFacts,
        signals: Indices,
    ) -> None:
        """Check bulk copies or reductions to an offset of the shared memory of `targets`; they signal mbarriers."""
        ground, shadow = self._ground, self._ground.shared
        clocks, topology = ground.clocks, ground.topology
        now = ground.tick()
        cells = slice(offset // shadow.cell, ceil_div(offset + nbytes, shadow.cell))
        of_ctas: slice | Indices = targets
        if targets.size == topology.ctas and (targets == np.arange(topology.ctas)).all():
            of_ctas = slice(None)  # makes shadow memory a view, not a copy
        rows = clocks.facts[:, lanes]
        rows[KNOWN, np.arange(lanes.size), clocks.column[lanes]] = now
        over, agents = np.maximum(rows[KNOWN], rows[clocks.over]), np.flatnonzero(~clocks.ordinary)
        rows[KNOWN][:, agents] = over[:, agents]
        place = np.arange(cells.start, cells.stop)
        verb = "updates" if ground.traits.reductions[site] else "writes"
        writes = shadow.by_cta(shadow.writes)[of_ctas, cells]
        if verb == "updates":
            self._require_written(site, lanes, place, writes, verb)
        self._require_seen("overwrite-before-wait", site, lanes, rows, place, writes, verb)
        for reads in shadow.used_reads():
            past = shadow.by_cta(reads)[of_ctas, cells]
            if past.any():
                late = (np.take_along_axis(over, column_of(past), axis=1) < time_of(past)) & (past > 0)
                self._report_first("overwrite-before-wait", site, lanes, place, past, late, verb)
                shadow.by_cta(reads)[of_ctas, cells] = 0
        columns = barrier.columns(signals)
        shadow.by_cta(shadow.writes)[of_ctas, cells] = pack(now, columns, site, True)[:, None]
        self._lifetimes.touch(site, targets, columns, offset, now)

    def read_by_bulk(self, site: int, lane: int, chunks: Indices, taken: Mask | None) -> int:
        """Check a bulk store of a lane, which reads 16-byte chunks of its CTA; returns the time, for the wait.

        taken: the chunks that it stores, None for all; others may hold nothing.
        """
        thread, ctas = int(self._ground.topology.thread[lane]), self._ground.topology.cta[[lane]]
        now, lanes = self._ground.tick(), np.array([lane])
        rows = self._ground.clocks.facts[:, lanes]
        columns = self._columns(("bulk", thread), ctas)
        needed = None if taken is None else np.repeat(taken, _CHUNK // self._ground.shared.cell)
        self._read(site, lanes, ctas, rows, self._cells(chunks), ("bulk", thread // WARP), columns, now, needed)
        return now

    def read_by_copy(self, site: int, lane: int, chunks: Indices, barrier: MbarrierFacts, signal: int) -> None:
        """Check a bulk copy of a lane that reads chunks of its own shared memory and signals the mbarrier of a CTA."""
        ctas, columns = self._ground.topology.cta[[lane]], barrier.columns(np.array([signal]))
        now, lanes = self._ground.tick(), np.array([lane])
        rows = self._ground.clocks.facts[:, lanes]
        self._read(site, lanes, ctas, rows, self._cells(chunks), ("mbarrier", barrier.offset), columns, now)
        self._lifetimes.touch(site, ctas, columns, int(chunks[0]) * _CHUNK, now)

    def read_by_wgmma(self, site: int, lanes: Indices, chunks: Indices) -> int:
        """Check wgmmas of one warpgroup in some CTAs, (ctas, 128), which read 16-byte chunks of shared memory.

        Returns the time, for the wait.
        """
        ground = self._ground
        warpgroup = int(ground.topology.thread[lanes[0, 0]]) // WARPGROUP
        now = ground.tick()
        rows = ground.clocks.facts[:, lanes[:, ::WARP]].min(axis=2)
        ctas, agent = ground.topology.cta[lanes[:, 0]], ("wgmma", warpgroup)
        self._read(site, lanes[:, 0], ctas, rows, self._cells(chunks), agent, self._columns(agent, ctas), now)
        return now

    def _cells(self, chunks: Indices) -> Indices:
        count = _CHUNK // self._ground.shared.cell
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
        needed: Mask | None = None,
    ) -> None:
        """Check agents of one kind, one in each of some CTAs, that read cells of their shared memory.

        needed: the cells that must have been written, None for all.
        """
        shadow = self._ground.shared
        writes = shadow.by_cta(shadow.writes)[ctas[:, None], cells]
        self._require_written(site, lanes, cells, writes, "reads", needed)
        self._require_seen("read-before-wait", site, lanes, rows, cells, writes, "reads")
        reads = shadow.by_cta(shadow.reads_of(reader))
        if ctas.size == len(reads) and (ctas[1:] > ctas[:-1]).all():  # all of them
            reads[:, cells] = pack(now, columns, site, True)[:, None]
        else:
            reads[ctas[:, None], cells] = pack(now, columns, site, True)[:, None]

    def retire(self, agent: str, numbers: Indices, lanes: Indices, times: Array | int) -> None:
        """Record that lanes know that the accesses of their agents up to a time are over.

        numbers, times: (parts,), the agents and their times.
        lanes: (parts, width), the lanes of one part, all in one CTA.
        """
        times = np.broadcast_to(times, numbers.shape)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            columns = self._columns((agent, number), self._ground.topology.cta[lanes[here, 0]])[:, None]
            facts = self._ground.clocks.facts  # a new agent's column may have replaced it
            known = facts[KNOWN, lanes[here], columns]
            facts[KNOWN, lanes[here], columns] = np.maximum(known, times[here, None])

    def _columns(self, agent: Hashable, ctas: Indices) -> Indices:
        """The column of each CTA's agent."""
        size = self._ground.topology.cluster_size
        return self._ground.clocks.agent(agent, size) + ctas % size

    def _require_written(
        self, site: int, lanes: Indices, cells: Indices, writes: Array, verb: str, needed: Mask | None = None
    ) -> None:
        """Report a cell, of those that are needed, that nothing has written: writes are (lanes, cells)."""
        if not writes.all():
            missing = writes == 0 if needed is None else (writes == 0) & needed
            self._report_first("uninitialized-shared", site, lanes, cells, writes, missing, verb)

    def _require_seen(
        self, rule: str, site: int, lanes: Indices, rows: Array, cells: Indices, writes: Array, verb: str
    ) -> None:
        """Report writes (lanes, cells) that the asynchronous operations of lanes do not see."""
        ground = self._ground
        if writes.shape[1] > 1 and (writes == writes[:, :1]).all():  # one copy wrote them all
            cells, writes = cells[:1], writes[:, :1]
        column, time = column_of(writes), time_of(writes)
        agents = ~ground.clocks.ordinary[column]
        known = np.take_along_axis(rows[KNOWN], column, axis=1) >= time
        seen = known if agents.all() else np.where(
            agents, known, np.take_along_axis(rows[ground.clocks.visible], column, axis=1) >= time
        )  # fmt: skip
        late = ~seen & (writes > 0)
        if verb == "updates":
            late &= ~ground.traits.reductions[site_of(writes)]
        if late.any():
            known |= column == ground.clocks.column[lanes][:, None]
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
        ground = self._ground
        row, index = np.unravel_index(int(mask.argmax()), mask.shape)
        lane, access = int(lanes[row]), past[row, index]
        address = int(cells[index]) * ground.shared.cell
        message = f"{ground.words.describe(site)} {verb} {ground.words.shared(address)}, which "
        sites: tuple[int, ...] = (site,)
        if access:
            kind = "mbarrier-access" if ground.traits.mbarriers[site_of(access)] else kind
            who = ground.name_of(int(column_of(access)), int(ground.topology.cta[lane]))
            sites = (site, int(site_of(access)))
            message += f"{who} {accesses(kind, ground.words.instruction(sites[1]), bool(is_asynchronous(access)))}"
            if kind == "overwrite-before-wait" and not is_asynchronous(access):
                message += (
                    ": a thread that arrives at the mbarrier for others must be ordered after what they read, by "
                    "__syncwarp() or another barrier before its arrival"
                )
        else:
            message += "has not been written"
        ground.report(kind, message, sites, ground.topology.group(np.array([lane])), address)
