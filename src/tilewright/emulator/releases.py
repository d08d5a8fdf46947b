"""The checks of synchronisation through memory: flags, locks, tickets.

A strong store or atomic publishes what its thread released (a fence before it, or .release), and who reads it (with
.acquire, or a fence after it) knows that too. An atomic carries on what it finds. Within a cluster that is the whole
row of the clocks; of another cluster a thread knows a moment, up to which it knows all that the cluster released.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilewright.emulator.clocks import KNOWN, VISIBLE_GLOBAL
from tilewright.emulator.lanes import Array, Group, Indices, Mask

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

_NARROW = frozenset(["cta", "cluster"])


@dataclass(slots=True)
class Release:
    """What a thread of a cluster published: its row of facts, and moments of clusters, its own among them."""

    facts: Array
    moments: dict[int, int]


Published: TypeAlias = dict[int, Release]  # by cluster


@dataclass(slots=True)
class History:
    """What a cluster has released: at each of its moments, everything up to then, (kinds, columns) of its clocks."""

    moments: list[int] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)

    def add(self, moment: int, row: Array) -> None:
        """Release the rows of a thread."""
        if self.rows:
            kinds, columns = self.rows[-1].shape  # some may have been added since
            earlier = row[:kinds, :columns]
            np.maximum(earlier, self.rows[-1], out=earlier)
        self.rows.append(row)
        self.moments.append(moment)

    def covers(self, moment: int, kind: int, columns: Array, times: Array) -> Mask:
        """Whether what was released up to a moment covers times of columns."""
        index = bisect_right(self.moments, moment) - 1
        if index < 0 or kind >= len(self.rows[index]):
            return np.zeros(columns.size, np.bool_)
        row = self.rows[index][kind]
        return np.asarray((columns < row.size) & (row[np.minimum(columns, row.size - 1)] >= times))


class Releases:
    """Of the lanes of one machine, whose shared memory they may pass through too."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._published: dict[str, dict[int, Published]] = {"shared": {}, "global": checker.state.published}
        self._fenced = np.zeros((2, checker.topology.lanes), np.int64)  # the last fence; the last of .gpu or .sys scope
        self._made: dict[int, tuple[int, int, Release]] = {}  # by lane: of which fences
        self._unacquired: dict[int, dict[tuple[str, int], tuple[Published, bool]]] = {}  # by lane: read, not fenced

    def fence(self, lanes: Indices, modifiers: tuple[str, ...]) -> None:
        """membar or fence: what follows it, if it publishes, releases; what preceded it, if it read, acquires."""
        wide = _NARROW.isdisjoint(modifiers)
        self._fenced[: 1 + wide, lanes] = self._checker.tick()
        if self._unacquired:
            for lane in lanes.tolist():
                for published, found_wide in self._unacquired.pop(lane, {}).values():
                    self._acquire(lane, published, wide and found_wide)

    def last_fences(self, lanes: slice | Indices) -> Array:
        """When lanes last fenced; 0 if they have not."""
        times: Array = self._fenced[0, lanes]
        return times

    def access(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """A strong access: it publishes what its thread released, and finds what others have."""
        modifiers = self._checker.machine.modifiers(site)
        acquires = any(order in modifiers for order in ("acquire", "acq_rel"))
        releases = any(order in modifiers for order in ("release", "acq_rel"))
        wide = _NARROW.isdisjoint(modifiers)
        space = "global" if space == "global" else "shared"
        published = self._published[space]
        if not (published or releases or self._fenced[0, lanes].any()):
            return
        for lane, place in zip(lanes.tolist(), where.tolist(), strict=True):
            found = published.get(place, {})
            if found and kind != "st":
                if acquires:
                    self._acquire(lane, found, wide)
                else:
                    self._unacquired.setdefault(lane, {})[space, place] = found, wide
            if kind == "ld":
                continue
            cluster = self._checker.cluster_of(lane)
            carried = found if kind == "atom" else {key: found[key] for key in (cluster,) if key in found}
            if releases:
                self._fenced[: 1 + wide, lane] = self._checker.tick()
            if self._fenced[0, lane]:
                release = self._release(lane, cluster)
                if cluster in carried:
                    release = self._joined(release, carried[cluster])
                carried = {**carried, cluster: release}
            published[place] = carried

    def knows(self, lanes: Indices, clusters: Array, columns: Array, times: Array) -> Mask:
        """Whether lanes know of accesses that other clusters made."""
        return self._covered(lanes, clusters, columns, times, KNOWN, KNOWN)

    def sees(self, lanes: Indices, clusters: Array, columns: Array, times: Array) -> Mask:
        """Whether asynchronous operations of lanes see ordinary writes of other clusters to global memory.

        The fence between proxies is the writer's, before it released, or the lane's, after it acquired.
        """
        theirs = self._covered(lanes, clusters, columns, times, KNOWN, VISIBLE_GLOBAL)
        return theirs | self._covered(lanes, clusters, columns, times, VISIBLE_GLOBAL, KNOWN)

    def _covered(
        self, lanes: Indices, clusters: Array, columns: Array, times: Array, acquired: int, released: int
    ) -> Mask:
        """Whether accesses are among what clusters released in one kind of rows, as lanes acquired it in another."""
        known = np.zeros(lanes.size, np.bool_)
        clocks = self._checker.clocks
        for cluster in np.unique(clusters).tolist():
            column, history = clocks.find(("cluster", cluster)), self._checker.state.histories.get(cluster)
            if column is None or history is None:
                continue
            here = np.flatnonzero(clusters == cluster)
            moments = clocks.facts[acquired, lanes[here], column]
            for moment in np.unique(moments).tolist():
                some = here[moments == moment]
                known[some] = history.covers(moment, released, columns[some], times[some])
        return known

    def _release(self, lane: int, cluster: int) -> Release:
        """What a lane releases: what it knew at its last fences."""
        checker = self._checker
        fenced, wide = self._fenced[:, lane].tolist()
        made = self._made.get(lane)
        if made is not None and made[:2] == (fenced, wide):
            return made[2]
        own = checker.clocks.column[lane]
        facts = checker.clocks.facts[:, lane].copy()
        facts[KNOWN, own] = fenced
        moments = {}
        if wide:
            moments = {number: int(facts[KNOWN, column]) for number, column in checker.clocks.of_kind("cluster")}
            moments[cluster] = checker.tick()
            row = facts.copy()
            row[KNOWN, own] = wide
            checker.state.histories.setdefault(cluster, History()).add(moments[cluster], row)
        release = Release(facts, moments)
        self._made[lane] = fenced, wide, release
        return release

    def _joined(self, first: Release, second: Release) -> Release:
        facts = np.maximum(self._checker.clocks.fit(first.facts), self._checker.clocks.fit(second.facts))
        return Release(facts, _latest([first.moments, second.moments]))

    def _acquire(self, lane: int, published: Published, wide: bool) -> None:
        clocks = self._checker.clocks
        own = self._checker.cluster_of(lane)
        if own in published:
            facts = clocks.fit(published[own].facts)
            clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], facts)
        if wide:
            for cluster, moment in _latest(release.moments for release in published.values()).items():
                if cluster != own:
                    column = clocks.agent(("cluster", cluster))
                    clocks.facts[KNOWN, lane, column] = max(clocks.facts[KNOWN, lane, column], moment)


def active_lanes(group: Group, active: Any) -> Indices:
    """The lanes of a group where `active` holds (None: everywhere)."""
    return group.indices if active is None else group.indices[np.broadcast_to(active, (group.size,))]


def _latest(moments: Iterable[dict[int, int]]) -> dict[int, int]:
    """For each cluster the latest moment."""
    latest: dict[int, int] = {}
    for some in moments:
        for cluster, moment in some.items():
            latest[cluster] = max(latest.get(cluster, 0), moment)
    return latest
