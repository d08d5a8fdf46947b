"""The checks of asynchronous operations: from issue to the wait, or to the signal, that tells their end."""

from functools import partial

import numpy as np

from tilewright.emulator.checks.accesses import AccessChecks
from tilewright.emulator.checks.accumulators import AccumulatorChecks
from tilewright.emulator.checks.agents import AgentChecks
from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.completions import Completions
from tilewright.emulator.checks.global_copies import GlobalCopyChecks
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.mbarriers import MbarrierChecks
from tilewright.emulator.lanes import WARPGROUP, Array, Indices
from tilewright.emulator.machine.operation import GlobalRegion, Operation, Queue, SharedRegion, Signal


class OperationChecks:
    """The dispatcher of a wave's asynchronous operations to the checks of the memory that they access."""

    def __init__(
        self,
        ground: Ground,
        accesses: AccessChecks,
        mbarriers: MbarrierChecks,
        agents: AgentChecks,
        global_copies: GlobalCopyChecks,
        accumulators: AccumulatorChecks,
    ) -> None:
        self._ground, self._accesses, self._mbarriers = ground, accesses, mbarriers
        self._agents, self._global_copies, self._accumulators = agents, global_copies, accumulators
        self._completions = Completions(ground.topology.lanes)
        self.waited = self._completions.waited

    def issued(self, operation: Operation) -> None:
        """Check an operation that begins."""
        if isinstance(operation.ends, Signal):
            if operation.kind == "send":
                self._send(operation, operation.ends)
            else:
                self._load(operation, operation.ends)
        else:
            begin = {"cp.async": self._copy, "bulk": self._store, "wgmma": self._multiply}[operation.kind]
            begin(operation, operation.ends)

    def _copy(self, operation: Operation, ends: Queue) -> None:
        """cp.async: a write of its thread that is not over before the wait."""
        written, site, lanes = operation.writes, operation.site, operation.lanes
        assert isinstance(written, SharedRegion)
        where = written.ctas[:, 0] * self._ground.topology.shared_stride + written.offsets
        self._accesses.access_shared("copy", site, lanes, where, written.nbytes)

        def retire(parts: Indices, columns: Array | None = None) -> None:
            agents = None if columns is None else columns[lanes[parts]]
            self._accesses.copied(site, lanes[parts], where[parts], written.nbytes, agents)

        self._completions.track(ends, lanes, retire)

    def signal_promised(self, site: int, ends: Queue, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Record that mbarriers, as well as the lanes' own waits, tell when the lanes' copies are over."""
        facts, clocks = self._mbarriers.at(offset), self._ground.clocks
        facts.use(site, lanes, ctas, by_copy=True)
        own = facts.column_of_copies(ctas)
        of_lanes = np.zeros(self._ground.topology.lanes, np.int64)
        of_lanes[lanes] = own
        self._completions.settle(ends.name, lanes, of_lanes)
        now = self._ground.tick()

        def retire(parts: Indices, columns: Array | None = None) -> None:  # also if later copies are settled
            clocks.facts[KNOWN, lanes[parts], own[parts]] = now

        self._completions.track(ends, lanes, retire)

    def _load(self, operation: Operation, ends: Signal) -> None:
        """A bulk copy to shared memory; each part signals an mbarrier in each CTA that it writes to."""
        site, lanes, written, read = operation.site, operation.lanes, operation.writes, operation.reads
        assert isinstance(written, SharedRegion)
        for offset, signal in sorted(set(zip(written.offsets.tolist(), ends.offsets.tolist(), strict=True))):
            here, facts = (written.offsets == offset) & (ends.offsets == signal), self._mbarriers.at(signal)
            for targets, signals in zip(written.ctas[here].T, ends.ctas[here].T, strict=True):
                facts.use(site, lanes[here], signals, by_copy=True)
                self._agents.land(site, lanes[here], targets, offset, written.nbytes, facts, signals)
        if isinstance(read, SharedRegion):
            for part, lane in enumerate(lanes.tolist()):
                facts, signal = self._mbarriers.at(int(ends.offsets[part])), int(ends.ctas[part, 0])
                self._agents.read_by_copy(site, lane, read.chunks_of(part), facts, signal)
        elif read is not None:
            self._global_copies.read(site, lanes, self._columns_of_loads(ends), read)

    def _columns_of_loads(self, ends: Signal) -> Indices | None:
        """The columns of the agents that tell when loads have read; of a multicast any does, and None is followed."""
        if ends.ctas.shape[1] != 1:
            return None
        columns = np.zeros(ends.offsets.size, np.int64)
        for offset in np.unique(ends.offsets).tolist():
            here = ends.offsets == offset
            columns[here] = self._mbarriers.at(offset).columns(ends.ctas[here, 0])
        return columns

    def _store(self, operation: Operation, ends: Queue) -> None:
        """Bulk copies from shared to global memory, or reductions there."""
        site, lanes, read, written = operation.site, operation.lanes, operation.reads, operation.writes
        assert isinstance(read, SharedRegion)
        assert isinstance(written, GlobalRegion)
        parts, threads = range(lanes.size), self._ground.topology.thread[lanes]
        taken = [None if read.taken is None else read.taken(part) for part in parts]
        reads = [self._agents.read_by_bulk(site, int(lanes[part]), read.chunks_of(part), taken[part]) for part in parts]
        writes = [
            self._global_copies.write(site, int(lanes[part]), written.rows_of(part), ("bulk write", int(threads[part])))
            for part in parts
        ]

        def retire(agent: str, times: Indices, some: Indices) -> None:
            self._agents.retire(agent, threads[some], lanes[some, None], times[some])

        self._completions.track(ends, lanes, partial(retire, "bulk", np.array(reads)))
        self._completions.track(ends, lanes, partial(retire, "bulk write", np.array(writes)), writes=True)

    def _send(self, operation: Operation, ends: Signal) -> None:
        """st.async or red.async: an operation of the generic proxy that is over when its mbarrier says so."""
        site, lanes, written = operation.site, operation.lanes, operation.writes
        assert isinstance(written, SharedRegion)
        where = written.ctas[:, 0] * self._ground.topology.shared_stride + written.offsets
        for signal in np.unique(ends.offsets).tolist():
            here = ends.offsets == signal
            facts, ctas = self._mbarriers.at(signal), ends.ctas[here, 0]
            facts.use(site, lanes[here], ctas, by_copy=True)
            facts.sent(lanes[here], ctas)
            kind = "atom" if self._ground.words.instruction(site).opcode == "red" else "copy"
            agents = facts.column_of_copies(ctas)
            self._accesses.access_shared(kind, site, lanes[here], where[here], written.nbytes, agents)

    def _multiply(self, operation: Operation, ends: Queue) -> None:
        """wgmma: warpgroups that read the same offsets of several CTAs are checked together."""
        topology, read, registers = self._ground.topology, operation.reads, operation.registers
        assert isinstance(read, SharedRegion)
        assert registers is not None
        warpgroups = topology.thread[operation.lanes] // WARPGROUP
        lanes = operation.lanes[:, None] + np.arange(WARPGROUP) * topology.ctas
        together: dict[object, list[int]] = {}
        for part, key in enumerate(zip(warpgroups.tolist(), read.alike or range(len(lanes)), strict=True)):
            together.setdefault(key, []).append(part)
        time = 0
        for parts in together.values():
            time = self._agents.read_by_wgmma(operation.site, lanes[parts], read.chunks_of(parts[0]))
        now = self._ground.tick()
        self._accumulators.multiply(operation.site, registers.group, registers.accumulators, registers.fragments, now)

        def retire(parts: Indices) -> None:
            self._agents.retire("wgmma", warpgroups[parts], lanes[parts], time)
            self._accumulators.retire(operation.lanes[parts], now)

        self._completions.track(ends, operation.lanes, retire)
