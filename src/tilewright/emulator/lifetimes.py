"""The checks of the end of threads, and with the last of a CTA of its shared memory."""

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.clocks import KNOWN
from tilewright.emulator.lanes import Array, Group, Indices, Mask

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker


class LifetimeChecks:
    """Of the CTAs of one machine.

    touched: (ctas, columns), when each thread or agent last accessed the shared memory of a CTA; sites, offsets: by
    which instruction and where. known: rows of what the exited threads of a CTA knew.
    """

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._known = checker.clocks.nothing(checker.topology.ctas)
        self._touched = checker.clocks.nothing(checker.topology.ctas)[KNOWN]
        self._sites, self._offsets = self._touched.copy(), self._touched.copy()

    def touch(self, site: int, targets: Indices, columns: Indices, offsets: Indices | int, now: int) -> None:
        """Others, or copies, access the shared memory of CTAs at offsets."""
        if not targets.size:
            return
        fit = self._checker.clocks.fit
        self._touched, self._sites, self._offsets = (
            fit(rows, kinds=False) for rows in (self._touched, self._sites, self._offsets)
        )
        self._touched[targets, columns] = now
        self._sites[targets, columns], self._offsets[targets, columns] = site, offsets

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
                number, machine = int(checker.machine.cta_numbers[cta]), checker.machine
                access, offset = int(self._sites[cta, column]), int(self._offsets[cta, column])
                message = (
                    f"CTA {number} exits and nothing tells it that {checker.name_of(column, cta)} is done with its "
                    f"shared memory, which it accesses by {machine.describe(access)} at shared address {offset:#x}"
                )
                block = machine.program.blocks[machine.block]
                sites = (block.start + len(block.instructions) - 1, access)
                checker.report("cluster-exit", (), message, sites, lanes, offset)
