"""The checks of synchronisation through memory: flags, locks, tickets.

A strong store or atomic publishes what its thread released (a fence before it, or .release), and who reads it (with
.acquire, or a fence after it) knows that too. An atomic carries on what it finds. Within a cluster that is the whole
row of the clocks; of another cluster a thread knows a moment, up to which it knows all that the cluster released.

All that only where scopes include both threads: those of the write and of the read that finds it, and those of the
release and of the acquire (PTX ISA, "Morally strong operations", "Memory synchronization").
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilewright.emulator.clocks import KNOWN, VISIBLE_GLOBAL
from tilewright.emulator.lanes import Array, Group, Indices, Mask
from tilewright.emulator.traits import CLUSTER, CTA, DEVICE, scope_of

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

Moments: TypeAlias = dict[int, tuple[int, int]]
"""By cluster: up to when it is known what the cluster released, and up to when asynchronous operations see it."""


@dataclass(slots=True)
class Release:
    """What threads of a CTA published.

    rows: what they knew, for threads of the CTA and for the rest of the cluster; None where scopes leave nothing.
    moments: of clusters, their own among them, for threads of other clusters.
    """

    rows: list[Array | None]
    moments: Moments


@dataclass(slots=True)
class Written:
    """The last strong write of a place: the CTA of its thread, its scope, and the releases it carries, by CTA."""

    cta: int
    scope: int
    releases: dict[int, Release]


Published: TypeAlias = dict[int, Written]  # by place


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

    def until(self, moment: int) -> Array | None:
        """What was released up to a moment, if anything."""
        index = bisect_right(self.moments, moment) - 1
        return None if index < 0 else self.rows[index]

    def covers(self, moment: int, kind: int, columns: Array, times: Array) -> Mask:
        """Whether what was released up to a moment covers times of columns."""
        rows = self.until(moment)
        if rows is None or kind >= len(rows):
            return np.zeros(columns.size, np.bool_)
        row = rows[kind]
        return np.asarray((columns < row.size) & (row[np.minimum(columns, row.size - 1)] >= times))


class Releases:
    """Of the lanes of one machine, whose shared memory they may pass through too."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._published: dict[str, Published] = {"shared": {}, "global": checker.state.published}
        self._fenced = np.zeros((DEVICE + 1, checker.topology.lanes), np.int64)  # the last of each scope or a wider
        self._made: dict[int, tuple[list[int], Release]] = {}  # by lane: of which fences
        self._unacquired: dict[int, dict[tuple[str, int], dict[int, Release]]] = {}  # by lane: read, not fenced

    def fence(self, lanes: Indices, modifiers: tuple[str, ...]) -> None:
        """membar or fence: what follows it, if it publishes, releases; what preceded it, if it read, acquires."""
        scope = scope_of(modifiers)
        self._fenced[: scope + 1, lanes] = self._checker.tick()
        if self._unacquired:
            for lane in lanes.tolist():
                for found in self._unacquired.get(lane, {}).values():
                    self._acquire(lane, found, scope)
                if scope == DEVICE:
                    self._unacquired.pop(lane, None)

    def last_fences(self, lanes: slice | Indices, scope: int) -> Array:
        """When lanes last fenced with this scope or a wider; 0 if they have not."""
        times: Array = self._fenced[scope, lanes]
        return times

    def access(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """A strong access: it publishes what its thread released, and finds what others have."""
        modifiers, scope = self._checker.machine.modifiers(site), int(self._checker.traits.scopes[site])
        acquires = any(order in modifiers for order in ("acquire", "acq_rel"))
        releases = any(order in modifiers for order in ("release", "acq_rel"))
        space = "global" if space == "global" else "shared"
        published = self._published[space]
        if not (published or releases or self._fenced[CTA, lanes].any()):
            return
        for lane, place in zip(lanes.tolist(), where.tolist(), strict=True):
            cta, last = self._checker.cta_of(lane), published.get(place)
            found = {} if last is None else last.releases
            if kind == "st":  # of its own cluster, whose threads may store the same
                found = {other: release for other, release in found.items() if self._apart(cta, other) < DEVICE}
            elif last is not None and self._apart(cta, last.cta) > min(scope, last.scope):
                found = {}
            elif found and acquires:
                self._acquire(lane, found, scope)
            elif found:
                self._unacquired.setdefault(lane, {})[space, place] = found
            if kind == "ld":
                continue
            if releases:
                self._fenced[: scope + 1, lane] = self._checker.tick()
            if self._fenced[CTA, lane]:
                release = self._release(lane)
                if cta in found:
                    release = self._joined(release, found[cta])
                found = {**found, cta: release}
            published[place] = Written(cta, scope, found)

    def _apart(self, cta: int, other: int) -> int:
        """The narrowest scope that includes threads of both CTAs."""
        size = self._checker.topology.cluster_size
        return CTA if cta == other else CLUSTER if cta // size == other // size else DEVICE

    def morally_strong(self, site: int, lanes: Indices, sites: Array, columns: Array, foreign: Mask) -> Mask:
        """Whether past accesses are strong and their scopes and that of this one include each other's threads.

        columns, foreign: whose the past accesses are, and whether of another cluster.
        """
        topology, traits = self._checker.topology, self._checker.traits
        same_cta = columns // topology.threads == topology.cta[lanes] % topology.cluster_size
        needed = np.where(foreign, DEVICE, np.where(same_cta, CTA, CLUSTER))
        return np.asarray(traits.strong[sites] & (np.minimum(traits.scopes[sites], traits.scopes[site]) >= needed))

    def meetings_beyond_scope(self, site: int, lanes: Indices, where: Indices) -> list[tuple[int, int]]:
        """Pairs among lanes of one instruction, by index, that are at one place and not in one scope."""
        checker = self._checker
        ctas = np.asarray(checker.machine.cta_numbers[checker.topology.cta[lanes]])
        teams = ctas if checker.traits.scopes[site] == CTA else checker.clusters_of(lanes)
        order = np.lexsort((teams, where))
        place, team = where[order], teams[order]
        met = np.flatnonzero((place[1:] == place[:-1]) & (team[1:] != team[:-1]))
        return list(zip(order[met].tolist(), order[met + 1].tolist(), strict=True))

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

    def _release(self, lane: int) -> Release:
        """What a lane releases: what it knew at its last fences."""
        checker = self._checker
        fenced: list[int] = self._fenced[:, lane].tolist()
        made = self._made.get(lane)
        if made is not None and made[0] == fenced:
            return made[1]
        own, cluster = checker.clocks.column[lane], checker.cluster_of(lane)
        rows: list[Array | None] = []
        for time in fenced[:DEVICE]:
            facts = checker.clocks.facts[:, lane].copy()
            facts[KNOWN, own] = time
            rows.append(facts if time else None)
        moments: Moments = {}
        if wide := fenced[DEVICE]:
            now, row = checker.tick(), checker.clocks.facts[:, lane].copy()
            moments = {number: _moments(row[:, column]) for number, column in checker.clocks.of_kind("cluster")}
            moments[cluster] = now, 0
            row[KNOWN, own] = wide
            checker.state.histories.setdefault(cluster, History()).add(now, row)
        release = Release(rows, moments)
        self._made[lane] = fenced, release
        return release

    def _joined(self, first: Release, second: Release) -> Release:
        rows = [self._union(one, other) for one, other in zip(first.rows, second.rows, strict=True)]
        return Release(rows, _latest([first.moments, second.moments]))

    def _union(self, one: Array | None, other: Array | None) -> Array | None:
        if one is None or other is None:
            return one if other is None else other
        return np.maximum(self._checker.clocks.fit(one), self._checker.clocks.fit(other))

    def _acquire(self, lane: int, found: dict[int, Release], scope: int) -> None:
        """A lane acquires releases, by CTA, as far as its scope includes their threads."""
        clocks, own = self._checker.clocks, self._checker.cta_of(lane)
        afar = []
        for cta, release in found.items():
            apart = self._apart(own, cta)
            if apart == DEVICE:
                afar.append(release.moments)
            elif apart <= scope and (row := release.rows[apart]) is not None:
                clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], clocks.fit(row))
        if scope < DEVICE:
            return
        for cluster, (known, seen) in _latest(afar).items():
            if cluster == self._checker.cluster_of(lane):
                self._recall(lane, known, seen)
                continue
            column = clocks.agent(("cluster", cluster))
            clocks.facts[KNOWN, lane, column] = max(clocks.facts[KNOWN, lane, column], known)
            if seen:
                clocks.track_global_writes()
                clocks.facts[VISIBLE_GLOBAL, lane, column] = max(clocks.facts[VISIBLE_GLOBAL, lane, column], seen)

    def _recall(self, lane: int, known: int, seen: int) -> None:
        """A lane acquires, from another cluster, what its own had released up to two moments."""
        clocks, history = self._checker.clocks, self._checker.state.histories[self._checker.cluster_of(lane)]
        if (row := history.until(known)) is not None:
            clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], clocks.fit(row))
        if (row := history.until(seen)) is not None:
            clocks.track_global_writes()
            visible = clocks.facts[VISIBLE_GLOBAL, lane]
            np.maximum(visible, clocks.fit(row)[KNOWN], out=visible)


def active_lanes(group: Group, active: Any) -> Indices:
    """The lanes of a group where `active` holds (None: everywhere)."""
    return group.indices if active is None else group.indices[np.broadcast_to(active, (group.size,))]


def _moments(facts: Array) -> tuple[int, int]:
    """Of one cluster, as some facts about it, (kinds,), say."""
    return int(facts[KNOWN]), int(facts[VISIBLE_GLOBAL]) if len(facts) > VISIBLE_GLOBAL else 0


def _latest(moments: Iterable[Moments]) -> Moments:
    """For each cluster the latest moments."""
    latest: Moments = {}
    for some in moments:
        for cluster, (known, seen) in some.items():
            known_before, seen_before = latest.get(cluster, (0, 0))
            latest[cluster] = max(known, known_before), max(seen, seen_before)
    return latest
