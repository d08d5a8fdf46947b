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
    which instruction and where. known: rows of what the exited threads of a CTA knew. last: of CTAs that have exited,
    the lane and the instruction by which they did.
    """

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._known = checker.clocks.nothing(checker.topology.ctas)
        self._touched = checker.clocks.nothing(checker.topology.ctas)[KNOWN]
        self._sites, self._offsets = self._touched.copy(), self._touched.copy()
        self._last: dict[int, tuple[int, int]] = {}

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
        if self._last:
            gone = np.flatnonzero(self._checker.machine.alive_threads[targets] == 0)
            for index in gone[:1].tolist():
                self._report(int(targets[index]), int(columns[index]))

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
            checker.budget.exited(cta, group)
            block = checker.machine.program.blocks[checker.machine.block]
            lane = int(group.indices[group.cta == cta][0])
            self._last[cta] = lane, block.start + len(block.instructions) - 1
            touched = self._touched[cta]
            known = self._known[[KNOWN, checker.clocks.over], cta, : touched.size].max(axis=0)
            for column in np.flatnonzero(touched > known)[:1].tolist():
                self._report(cta, column)

    def _report(self, cta: int, column: int) -> None:
        """A CTA has exited and does not know of the last access in a column, which came before or comes after."""
        checker, machine, (lane, site) = self._checker, self._checker.machine, self._last[cta]
        access, offset = int(self._sites[cta, column]), int(self._offsets[cta, column])
        message = (
            f"CTA {int(machine.cta_numbers[cta])} exits by {machine.describe(site)} and nothing tells it that "
            f"{checker.name_of(column, cta)} is done with its shared memory, which it accesses by "
            f"{machine.describe(access)} at {machine.shared(offset)}"
        )
        checker.report("cluster-exit", (), message, (site, access), checker.topology.group(np.array([lane])), offset)
