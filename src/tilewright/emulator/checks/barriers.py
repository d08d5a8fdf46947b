"""The checks of barriers: a thread that goes on knows what all threads that arrived knew."""

from collections.abc import Sequence

import numpy as np

from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.lifetimes import LifetimeChecks
from tilewright.emulator.checks.mbarriers import MbarrierChecks
from tilewright.emulator.checks.releases import Releases
from tilewright.emulator.lanes import Array, Group, Mask
from tilewright.emulator.machine.waiting.barriers import CLUSTER_BARRIER
from tilewright.emulator.program.traits import CLUSTER


class BarrierChecks:
    """The knowledge that the barriers of a wave carry from arrivals to the threads that go on.

    arrived: for each barrier, rows by CTA slot of the current phases.
    over: for each barrier, rows by CTA slot of the last completed phases.
    """

    def __init__(
        self, ground: Ground, lifetimes: LifetimeChecks, releases: Releases, mbarriers: MbarrierChecks
    ) -> None:
        self._ground, self._lifetimes, self._releases, self._mbarriers = ground, lifetimes, releases, mbarriers
        self._arrived: dict[int | str, Array] = {}
        self._over: dict[int | str, Array] = {}

    def arrived(self, site: int, barrier: int | str, group: Group) -> None:
        """Record that threads arrive at a barrier."""
        rows = self._arrived.get(barrier)
        if rows is None:
            rows = self._ground.clocks.nothing(self._ground.topology.ctas)
        relaxed = barrier == CLUSTER_BARRIER and "relaxed" in self._ground.words.modifiers(site)
        self._arrived[barrier] = self._with_fenced(rows, group) if relaxed else self._ground.with_released(rows, group)

    def _with_fenced(self, rows: Array, group: Group) -> Array:
        """The rows after a relaxed arrival at a cluster's barrier, which releases what its threads fenced before."""
        ground = self._ground
        rows = ground.clocks.fit(rows)
        for lane in group.indices.tolist():
            if (fenced := self._releases.fenced(lane, CLUSTER)) is not None:  # fences are cumulative
                known = rows[:, ground.topology.cta[lane]]
                np.maximum(known, ground.clocks.fit(fenced), out=known)
        self._mbarriers.release_initialized(rows, group.indices)
        return rows

    def completed(self, barrier: int | str, over: Mask, exited_count: Mask) -> None:
        """Record that all have arrived in some CTAs; in some of these, threads that have exited count as arrived."""
        if (arrived := self._arrived.get(barrier)) is None:
            return  # threads have only exited
        rows = self._lifetimes.with_exited(arrived, exited_count)
        if barrier == CLUSTER_BARRIER:
            rows = self._of_clusters(rows, over)
        self._over[barrier] = rows
        arrived[:, over] = 0

    def _of_clusters(self, rows: Array, over: Mask) -> Array:
        """The rows of the last phases, after phases of some CTAs whose rows go to the whole cluster."""
        size, (kinds, _, columns) = self._ground.topology.cluster_size, rows.shape
        joined = np.repeat(rows.reshape(kinds, -1, size, columns).max(axis=2), size, axis=1)
        before = self._over.get(CLUSTER_BARRIER)
        return joined if before is None else np.where(over[:, None], joined, self._ground.clocks.fit(before))

    def passed(self, barrier: int | str, groups: Sequence[Group]) -> None:
        """Record that threads go on after a barrier: in each CTA, all that waited there."""
        ground, rows = self._ground, self._over.get(barrier)
        if rows is None:
            return
        for group in groups:
            ground.clocks.learn(group, rows)
        if barrier != CLUSTER_BARRIER:
            waited = np.zeros(ground.topology.ctas, np.int64)
            for group in groups:
                waited += np.bincount(group.cta, minlength=waited.size)
            ground.met(waited == ground.topology.threads)
