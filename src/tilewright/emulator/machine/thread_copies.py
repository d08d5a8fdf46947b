"""cp.async: copies of 4, 8 or 16 bytes that each thread issues."""

from collections.abc import Callable

import numpy as np

from tilewright.emulator.errors import Misaligned
from tilewright.emulator.lanes import Active, Array, Group, Indices, lane_values, lanes_of
from tilewright.emulator.machine.asynchrony import CommitGroups
from tilewright.emulator.machine.operation import Operation, SharedRegion
from tilewright.emulator.machine.waiting.mbarriers import Mbarriers
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE

_WIDE = {4: np.uint32, 8: np.uint64, 16: np.complex128}


class ThreadCopies:
    """The cp.async of a wave: 4, 8 or 16 bytes per thread from global to shared memory."""

    def __init__(self, wave: Wave, mbarriers: Mbarriers) -> None:
        self._wave, self._mbarriers = wave, mbarriers
        self.groups = CommitGroups("cp.async", wave.asynchrony, wave.topology.lanes, wave.tell)

    def copy(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: int,
        taken: Array | None,
        active: Active,
    ) -> None:
        """Issue one cp.async; `taken` bytes come from the source, and the rest of `size` are zeros."""
        access = self._wave.access
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        lanes = group if chosen is None else group.take(lanes_of(active, group.size))
        if not lanes.size:
            return
        to, source = (lane_values(value, group.size, chosen) for value in (to, source))
        _, destination = access.locate(site, lanes, "shared", to, size)
        amount = None if taken is None else np.minimum(lane_values(taken, group.size, chosen), np.uint32(size))
        origin = self._origin(site, lanes, source, size, amount)
        if self._wave.tell.hear("accessed"):
            reading = None if amount is None else np.flatnonzero(amount)
            read = origin if reading is None else origin[reading]
            self._wave.tell.accessed(site, "cp.async", "global", lanes, read, size, reading)
            self._wave.tell.accessed(site, "cp.async", "shared", lanes, destination, size, None)
        if self._wave.tell.hear("issued"):
            written = SharedRegion(lanes.cta[:, None], destination - lanes.shared_base, size)
            ends = self.groups.queue(lanes.indices)
            self._wave.tell.issued(Operation(site, "cp.async", lanes.indices, ends, writes=written))

        def perform(some: Indices | None) -> None:
            where, of = (destination, origin) if some is None else (destination[some], origin[some])
            [data] = access.memory.gather(of, _WIDE[size], 1)
            if amount is not None:
                rows = data.view(np.uint8).reshape(-1, size)
                rows[np.arange(size) >= (amount if some is None else amount[some])[:, None]] = 0
            access.shared.scatter(where, [data])

        self.groups.issue(lanes.indices, perform)

    def _origin(self, site: int, lanes: Group, source: Array, size: int, amount: Array | None) -> Indices:
        """Checked offsets in global memory; lanes that take nothing get 0."""
        access = self._wave.access
        if amount is None or (amount == size).all():
            return access.locate(site, lanes, "global", source, size)[1]
        origin = np.zeros(lanes.size, np.int64)
        for some in np.unique(amount[amount > 0]):
            here = amount == some
            access.locate(site, lanes, "global", source[here], int(some))
            origin[here] = (source[here] - np.uint64(GLOBAL_BASE)).view(np.int64)
        if (origin % size).any():
            raise Misaligned(
                f"{self._wave.words.describe(site)} copies from an address that is not a multiple of {size}"
            )
        return origin

    def arrive_when_done(
        self, site: int, group: Group, space: str, address: Array, noinc: bool, active: Active
    ) -> None:
        """cp.async.mbarrier.arrive: an arrival once all earlier cp.async of the thread are done."""
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        address = lane_values(address, group.size, chosen)
        cta, offsets = self._wave.access.cta_and_offset(site, lanes, space, address)
        operations: list[Callable[[], None]] = []
        for offset in np.unique(offsets):
            here = offsets == offset
            self._mbarriers.arrive_later(site, int(offset), cta[here], not noinc)
            self._mbarriers.require_valid(site, int(offset), cta[here])
            owners = lanes.indices[here]
            self._wave.tell.signal_promised(site, self.groups.queue(owners), owners, int(offset), cta[here])

            def finish(offset: int = int(offset), owners: Indices = owners, cta: Indices = cta[here]) -> None:
                self.groups.complete(owners)
                self._mbarriers.arrive_at(site, offset, cta)

            operations.append(finish)
        self._wave.asynchrony.defer(operations)
