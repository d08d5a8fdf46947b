"""The checks of the end of threads, and with the last of a CTA of its shared memory."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.clocks import KNOWN
from tilewright.emulator.lanes import Array, Group, Indices, Mask

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class LifetimeChecks:
    """Of the CTAs of one machine.

    touched: (ctas, columns), when each thread or agent last accessed the shared memory of another CTA. known: rows of
    what the exited threads of a CTA knew.
    """

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._known = checker.clocks.nothing(checker.topology.ctas)
        self._touched = checker.clocks.nothing(checker.topology.ctas)[KNOWN]

    def touch(self, targets: Indices, columns: Indices, now: int) -> None:
        """Others access the shared memory of CTAs."""
        if targets.size:
            self._touched = self._checker.clocks.fit(self._touched, kinds=False)
            self._touched[targets, columns] = now

    def with_exited(self, rows: Array, ctas: Mask) -> Array:
        """The rows of a barrier where, in some CTAs, threads that have exited count as arrived."""
        clocks = self._checker.clocks
        return np.maximum(clocks.fit(rows), np.where(ctas[:, None], clocks.fit(self._known), 0))

    def exited(self, group: Group) -> None:
        """Threads exit; with the last of a CTA its shared memory goes."""
        checker = self._checker
        self._known = checker.release(self._known, group)
        for cta in np.unique(group.cta).tolist():
            if checker.machine.alive_threads[cta]:
                continue
            checker.registers.exited(cta, group)
            touched = self._touched[cta]
            known = self._known[[KNOWN, checker.clocks.over], cta, : touched.size].max(axis=0)
            late = np.flatnonzero(touched > known)
            for column in late[:1].tolist():
                lanes = checker.topology.group(np.array([group.indices[group.cta == cta][0]]))
                number = int(checker.machine.cta_numbers[cta])
                message = (
                    f"CTA {number} exits and nothing tells it that {checker.name_of(column, cta)} is done with its "
                    "shared memory"
                )
                checker.report("cluster-exit", (cta, column), message, (), lanes, None)
