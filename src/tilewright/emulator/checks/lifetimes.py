"""The checks of the end of threads; shared memory ends with the last thread of its CTA."""

import numpy as np

from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.lanes import Array, Group, Indices, Mask


class LifetimeChecks:
    """The ends of a wave's CTAs.

    touched: (ctas, columns), when each thread or agent last accessed the shared memory of a CTA.
    sites, offsets: the instruction and the place of that access.
    known: rows of what the exited threads of a CTA knew.
    last: for each CTA that has exited, the last lane and the instruction by which it exited.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known = ground.clocks.nothing(ground.topology.ctas)
        self._touched = ground.clocks.nothing(ground.topology.ctas)[KNOWN]
        self._sites, self._offsets = self._touched.copy(), self._touched.copy()
        self._last: dict[int, tuple[int, int]] = {}

    def touch(self, site: int, targets: Indices, columns: Indices, offsets: Indices | int, now: int) -> None:
        """Record that threads of other CTAs, or copies, access the shared memory of CTAs at offsets."""
        if not targets.size:
            return
        fit = self._ground.clocks.fit
        self._touched, self._sites, self._offsets = (
            fit(rows, kinds=False) for rows in (self._touched, self._sites, self._offsets)
        )
        self._touched[targets, columns] = now
        self._sites[targets, columns], self._offsets[targets, columns] = site, offsets
        if self._last:
            gone = np.flatnonzero(self._ground.wave.alive_threads[targets] == 0)
            for index in gone[:1].tolist():
                self._report(int(targets[index]), int(columns[index]))

    def with_exited(self, rows: Array, ctas: Mask) -> Array:
        """The rows of a barrier where, in some CTAs, threads that have exited count as arrived."""
        clocks = self._ground.clocks
        return np.maximum(clocks.fit(rows), np.where(ctas[:, None], clocks.fit(self._known), 0))

    def exited(self, group: Group, site: int) -> None:
        """Record that threads exit by an instruction; the shared memory of a CTA ends with its last thread."""
        ground = self._ground
        self._known = ground.with_released(self._known, group)
        for cta in np.unique(group.cta).tolist():
            if ground.wave.alive_threads[cta]:
                continue
            self._last[cta] = int(group.indices[group.cta == cta][0]), site
            touched = self._touched[cta]
            known = self._known[[KNOWN, ground.clocks.over], cta, : touched.size].max(axis=0)
            for column in np.flatnonzero(touched > known)[:1].tolist():
                self._report(cta, column)

    def _report(self, cta: int, column: int) -> None:
        """Report a CTA that exited without knowing of the last access in a column, made before or after its exit."""
        ground, words, (lane, site) = self._ground, self._ground.words, self._last[cta]
        access, offset = int(self._sites[cta, column]), int(self._offsets[cta, column])
        message = (
            f"CTA {int(ground.wave.cta_numbers[cta])} exits by {words.describe(site)} and nothing tells it that "
            f"{ground.name_of(column, cta)} is done with its shared memory, which it accesses by "
            f"{words.describe(access)} at {words.shared(offset)}"
        )
        ground.report("cluster-exit", message, (site, access), ground.topology.group(np.array([lane])), offset)
