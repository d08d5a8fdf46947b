"""Completion of asynchronous operations, as waits for their commit groups make it known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.lanes import Indices, Mask
from tilewright.emulator.machine.operation import Queue


@dataclass(slots=True)
class _Pending:
    """Parts of an operation that may still run, and the action for those that are over, by index."""

    owners: Indices
    numbers: Indices
    retire: Callable[..., None]
    parts: Indices

    def take(self, mask: Mask) -> "_Pending":
        return _Pending(self.owners[mask], self.numbers[mask], self.retire, self.parts[mask])


class Completions:
    """The operations of a wave in commit groups, by queue: those that still read and those that still write."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._pending: dict[tuple[str, bool], list[_Pending]] = {}

    def track(self, ends: Queue, owners: Indices, retire: Callable[..., None], *, writes: bool = False) -> None:
        """Call `retire` for parts, by index, when the wait of their owner covers them (or see settle).

        writes: the parts write, so a wait for reads does not cover them.
        """
        parts = np.arange(owners.size)
        self._pending.setdefault((ends.name, writes), []).append(_Pending(owners, ends.numbers, retire, parts))

    def waited(self, queue: str, lanes: Indices, below: Indices, reads_only: bool) -> None:
        """Record that lanes know that their groups with numbers below these are over."""
        for writes in (False, True)[: 1 if reads_only else 2]:
            if self._pending.get((queue, writes)):
                limit = np.full(self._lanes, -1, np.int64)
                limit[lanes] = below
                for done in self._take_below(queue, writes, limit):
                    done.retire(done.parts)

    def settle(self, queue: str, lanes: Indices, columns: Indices) -> None:
        """Retire all that lanes have issued: agents of columns, by lane, tell when it is over; their waits do not."""
        limit = np.full(self._lanes, -1, np.int64)
        limit[lanes] = np.iinfo(np.int64).max
        for done in self._take_below(queue, False, limit):
            done.retire(done.parts, columns=columns)

    def _take_below(self, queue: str, writes: bool, limit: Indices) -> list[_Pending]:
        """Take out the parts whose numbers are below the limits of their lanes."""
        taken, left = [], []
        for pending in self._pending.get((queue, writes), []):
            due = pending.numbers < limit[pending.owners]
            if due.all():
                taken.append(pending)
            elif due.any():
                taken.append(pending.take(due))
                left.append(pending.take(~due))
            else:
                left.append(pending)
        self._pending[queue, writes] = left
        return taken
