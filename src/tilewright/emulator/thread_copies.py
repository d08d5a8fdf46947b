"""cp.async: copies of 4, 8 or 16 bytes that each thread issues."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arithmetic import lane_values, lanes_of
from tilewright.emulator.asynchrony import CommitGroups
from tilewright.emulator.clocks import KNOWN
from tilewright.emulator.errors import Misaligned
from tilewright.emulator.lanes import Array, Group, Indices
from tilewright.emulator.memory import GLOBAL_BASE

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_WIDE = {4: np.uint32, 8: np.uint64, 16: np.complex128}


class ThreadCopies:
    """cp.async: 4, 8 or 16 bytes per thread from global to shared memory."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self.groups = CommitGroups(machine.asynchrony, machine.topology.lanes)

    def copy(
        self,
        site: int,
        group: Group,
        to: Array,
        source: Array,
        size: int,
        taken: Array | None,
        through_l1: bool,
        active: Any,
    ) -> None:
        """Issue one cp.async; `taken` bytes come from the source and the rest of `size` are zeros.

        through_l1: for the counters, whether it is .ca.
        """
        access = self._machine.access
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        lanes = group if chosen is None else group.take(lanes_of(active, group.size))
        if not lanes.size:
            return
        to, source = (lane_values(value, group.size, chosen) for value in (to, source))
        _, destination = access.locate(site, lanes, "shared", to, size)
        amount = None if taken is None else np.minimum(lane_values(taken, group.size, chosen), np.uint32(size))
        origin = self._origin(site, lanes, source, size, amount)
        if access.counter is not None:
            reading = None if amount is None else np.flatnonzero(amount)
            read = origin if reading is None else origin[reading]
            access.counter.access(site, "ld", "global", size, lanes, read, reading)
            if through_l1:
                access.counter.copy_through_l1(site, size, lanes, read, reading, destination)
            else:
                access.counter.access(site, "cp.async", "shared", size, lanes, destination, None)

        if (checker := access.checker) is not None:
            checker.access_shared("copy", site, lanes.indices, destination, size)
            self.groups.track(lanes.indices, partial(self._copied, site, lanes.indices, destination, size))

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
        access = self._machine.access
        if amount is None or (amount == size).all():
            return access.locate(site, lanes, "global", source, size)[1]
        origin = np.zeros(lanes.size, np.int64)
        for some in np.unique(amount[amount > 0]):
            here = amount == some
            access.locate(site, lanes, "global", source[here], int(some))
            origin[here] = (source[here] - np.uint64(GLOBAL_BASE)).view(np.int64)
        if (origin % size).any():
            raise Misaligned(f"{self._machine.describe(site)} copies from an address that is no multiple of {size}")
        return origin

    def _copied(
        self, site: int, lanes: Indices, where: Indices, size: int, some: Indices, columns: Array | None = None
    ) -> None:
        """For the checks: some copies are over, as their lanes' waits, or those for agents' `columns`, will tell."""
        checker = self._machine.checker
        assert checker is not None
        checker.copied(site, lanes[some], where[some], size, None if columns is None else columns[lanes[some]])

    def _signal(self, lanes: Indices, columns: Array) -> None:
        """For the checks: mbarriers, agents of these columns, tell of what lanes copied; so do the lanes' waits."""
        checker = self._machine.checker
        assert checker is not None
        of_lanes = np.zeros(self._machine.topology.lanes, np.int64)
        of_lanes[lanes] = columns
        self.groups.settle(lanes, columns=of_lanes)
        now, facts = checker.tick(), checker.clocks

        own = columns

        def waited(some: Indices, columns: Array | None = None) -> None:  # also where later copies are settled
            facts.facts[KNOWN, lanes[some], own[some]] = now

        self.groups.track(lanes, waited)

    def arrive_when_done(self, site: int, group: Group, space: str, address: Array, noinc: bool, active: Any) -> None:
        """cp.async.mbarrier.arrive: an arrival once all earlier cp.async of the thread are done."""
        machine = self._machine
        lanes = group.active(active)
        if not lanes.size:
            return
        chosen = None if active is None else np.flatnonzero(lanes_of(active, group.size))
        cta, offsets = machine.access.cta_and_offset(site, lanes, space, lane_values(address, group.size, chosen))
        operations: list[Callable[[], None]] = []
        for offset in np.unique(offsets):
            here = offsets == offset
            machine.mbarriers.arrive_later(site, int(offset), cta[here], not noinc)
            if machine.checker is not None:
                barrier = machine.mbarriers.used_by_copies(site, int(offset), lanes.indices[here], cta[here])
                self._signal(lanes.indices[here], barrier.column_of_copies(cta[here]))

            def finish(
                offset: int = int(offset), owners: Indices = lanes.indices[here], cta: Indices = cta[here]
            ) -> None:
                self.groups.complete(owners)
                machine.mbarriers.arrive_at(site, offset, cta)

            operations.append(finish)
        machine.asynchrony.defer(operations)
