"""The times at which asynchronous operations take effect.

The PTX manual only says by when an operation has taken effect: a wait. "eager" performs it at once. "lazy" performs it
at the last moment: a commit group when a wait retires it, a copy that signals an mbarrier when no thread can go on
without it. "random" performs it at a moment drawn from a seed. A kernel with all the waits it needs gives one result
under all three.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tilewright.emulator.lanes import Active, Group, Indices
from tilewright.emulator.machine.observer import Observers
from tilewright.emulator.machine.operation import Queue

Policy: TypeAlias = Literal["eager", "lazy", "random"]
POLICIES: tuple[Policy, ...] = ("eager", "lazy", "random")


class Asynchrony:
    """The policy, and the operations that complete by themselves at some time."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy = policy
        self.generator = np.random.default_rng(seed)
        self._pending: list[list[Callable[[], None]]] = []

    def at_once(self) -> bool:
        """Whether an operation that is issued now takes effect at once."""
        return self.policy == "eager" or (self.policy == "random" and bool(self.generator.integers(2)))

    def defer(self, operations: list[Callable[[], None]]) -> None:
        """Issue the operations of one instruction that complete by themselves."""
        if self.policy == "random":
            for operation in operations:
                if self.at_once():
                    operation()
                else:
                    self._pending.append([operation])
        elif self.policy == "lazy":
            self._pending.append(operations)
        else:
            for operation in operations:
                operation()

    def complete_one(self) -> bool:
        """Complete the operations of one instruction, the oldest or a random one; False if nothing is pending."""
        if not self._pending:
            return False
        index = int(self.generator.integers(len(self._pending))) if self.policy == "random" else 0
        for operation in self._pending.pop(index):
            operation()
        return True

    def step(self) -> None:
        """Let time pass: under the random policy an operation may complete, rarely enough for waits to come first."""
        if self.policy == "random" and self._pending and self.generator.integers(16) == 0:
            self.complete_one()


@dataclass(slots=True)
class _Operation:
    """An operation that is issued but not performed.

    number: the commit group of each owner lane.
    perform: performs the operation for some owners.
    """

    owners: Indices
    number: Indices
    perform: Callable[[Indices], None]
    chosen: Indices  # indices of the remaining owners, as `perform` knows them


class CommitGroups:
    """The commit groups of one kind of commit_group / wait_group; each thread numbers its groups.

    Operations of a thread take effect in order. name: as in Queue.
    """

    def __init__(self, name: str, asynchrony: Asynchrony, lanes: int, tell: Observers) -> None:
        self._name, self._asynchrony, self._tell = name, asynchrony, tell
        self._committed = np.zeros(lanes, np.int64)
        self._last_issued = np.full(lanes, -1, np.int64)
        self._retired = np.zeros(lanes, np.int64)
        self._operations: list[_Operation] = []

    def queue(self, owners: Indices) -> Queue:
        """The queue entry of an operation that these lanes issue now."""
        return Queue(self._name, self._committed[owners])

    def issue(
        self,
        owners: Indices,
        perform: Callable[[Indices | None], None],
        put_off: Callable[[], None] = lambda: None,
    ) -> None:
        """Issue an operation for some lanes; perform(None) does it for all, perform(indices) for some owners.

        put_off: called if the operation is not performed at once.
        """
        self._last_issued[owners] = self._committed[owners]
        if self._asynchrony.at_once():
            if self._operations:
                self.complete(owners)
            perform(None)
            return
        put_off()
        number = self._committed[owners]
        self._operations.append(_Operation(owners, number, perform, np.arange(owners.size)))

    def commit(self, group: Group, active: Active) -> None:
        """Close the current group of the active lanes."""
        self._committed[group.active(active).lanes] += 1

    def wait(self, group: Group, pending: int, active: Active = None, reads_only: bool = False) -> None:
        """Perform all but the latest `pending` groups of the active lanes.

        reads_only: the wait covers only the reads of the operations, not their writes.
        """
        lanes = group.active(active).indices
        below = self._committed[lanes] - pending
        self._retired[lanes] = np.maximum(self._retired[lanes], below)
        if self._operations:
            limit = np.full(self._committed.size, -1, np.int64)
            limit[lanes] = below
            self._operations = _perform_below(self._operations, limit)
        self._tell.waited(self._name, lanes, below, reads_only)

    def complete(self, lanes: Indices) -> None:
        """Perform everything that these lanes have issued."""
        limit = np.full(self._committed.size, -1, np.int64)
        limit[lanes] = np.iinfo(np.int64).max
        self._operations = _perform_below(self._operations, limit)

    def unretired(self, group: Group) -> Group:
        """The lanes of a group that have issued operations without waiting for them."""
        return group.take(self._last_issued[group.lanes] >= self._retired[group.lanes])


def _perform_below(operations: list[_Operation], limit: Indices) -> list[_Operation]:
    """Perform the operations whose group number is below their lane's limit; returns the others."""
    kept = []
    for operation in operations:
        due = operation.number < limit[operation.owners]
        if not due.any():
            kept.append(operation)
            continue
        operation.perform(operation.chosen[due])
        if not due.all():
            left = ~due
            kept.append(
                _Operation(operation.owners[left], operation.number[left], operation.perform, operation.chosen[left])
            )
    return kept
