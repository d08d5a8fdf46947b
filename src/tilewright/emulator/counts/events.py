"""The counter of all events except accesses to memory."""

from collections.abc import Sequence

from tilewright.emulator.counts.counters import Sites
from tilewright.emulator.lanes import Group
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.ptx.syntax import Instruction


class EventCounter(Observer):
    """The counter of instructions, products, bytes that TMA moves, and waits."""

    def __init__(self, sites: Sites) -> None:
        self._counts, self._executions = sites.counts, sites.executions

    def multiplied(
        self, site: int, group: Group, kind: str, shape: str, types: Sequence[str], executions: int, shared_bytes: int
    ) -> None:
        """Count tensor-core instructions."""
        counts = self._counts[site]
        counts.multiply(kind, shape, types, executions)
        counts.wgmma_read_bytes += shared_bytes

    def moved(self, site: int, loaded: int, read: int, stored: int, destinations: int) -> None:
        """Count the bytes of bulk copies."""
        counts = self._counts[site]
        if loaded:
            counts.load_by_tma(loaded, read, destinations)
        counts.tma_stored_bytes += stored

    def waits_at(self, site: int, kind: str, group: Group) -> None:
        """Count the warps that come to a barrier."""
        if kind == "mbarrier":
            self._counts[site].mbarrier_waits += group.warps.count
        else:
            self._counts[site].barrier_waits += group.warps.count

    def ran(self, start: int, instructions: Sequence[Instruction], warps: int) -> None:
        """Count executed instructions."""
        for site in range(start, start + len(instructions)):
            self._executions[site] += warps
