"""The checks of synchronisation through memory: flags, locks, tickets.

A strong store or atomic publishes what its thread released (a fence before it, or .release), and who reads it (with
.acquire, or a fence after it) knows that too. An atomic carries on what it finds. Within a cluster that is the whole
row of the clocks; of another cluster a thread knows a moment, up to which it knows all that the cluster released.

All that only where scopes include both threads: those of the write and of the read that finds it, and those of the
release and of the acquire (PTX ISA, "Morally strong operations", "Memory synchronization").

Fences that are sequentially consistent also synchronise with each other, in the order that a run gives them
("Fence-SC order"). Only what every run gives them in the same way counts: the first happens before a strong write, a
strong read finds that, and the read happens before the second. No barrier on the way need be the thread's own. So
strong writes publish what such fences knew as well, and who reads it knows it past the next one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilewright.emulator.clocks import KNOWN
from tilewright.emulator.history import History
from tilewright.emulator.lanes import Array, Group, Indices, Mask
from tilewright.emulator.traits import CLUSTER, CTA, DEVICE

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker

Moments: TypeAlias = dict[int, tuple[int, int]]
"""By cluster: up to when it is known what the cluster released, and up to when asynchronous operations see it."""


@dataclass(slots=True)
class Release:
    """What threads of a CTA published.

    rows: what they knew, for threads of the CTA and for the rest of a cluster; None where scopes leave nothing.
    moments: of clusters, their own among them, for threads of other clusters.
    """

    rows: list[Array | None]
    moments: Moments


@dataclass(slots=True)
class _Fenced:
    """What a lane knew at its last fence of each scope or a wider one, (kinds, columns); what it publishes of that."""

    rows: list[Array | None]
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """The releases that a strong write carries, by CTA.

    own: the latest moments of the clusters they are of. told: of clusters, as the releases of others tell.
    """

    releases: dict[int, Release]
    own: Moments
    told: Moments


_NOTHING = Carried({}, {}, {})


@dataclass(slots=True)
class Written:
    """The last strong write of a place: the CTA of its thread, its scope, and the releases it carries.

    released: for who acquires. sequenced: for who executes fence.sc.
    """

    cta: int
    scope: int
    released: Carried
    sequenced: Carried


Published: TypeAlias = dict[int, Written]  # by place


class Releases:
    """Of the lanes of one machine, whose shared memory they may pass through too."""

    def __init__(self, checker: "Checker") -> None:
        self._checker = checker
        self._published: dict[str, Published] = {"shared": {}, "global": checker.state.published}
        self._scopes = DEVICE if checker.topology.cluster_size > 1 else CLUSTER  # that take whole rows
        self._fenced: dict[int, _Fenced] = {}  # by lane
        self._sequenced: dict[int, tuple[Array, Release]] = {}  # by lane: what it last published for fence.sc
        self._unacquired: dict[int, dict[tuple[str, int], Carried]] = {}  # by lane: read, not fenced
        for written in checker.state.published.values():  # by CTAs that have ended
            for carried in (written.released, written.sequenced):
                for release in carried.releases.values():
                    release.rows = [None] * len(release.rows)

    def fence(self, site: int, lanes: Indices) -> None:
        """membar or fence: what follows it, if it publishes, releases; what preceded it, if it read, acquires."""
        clocks, traits = self._checker.clocks, self._checker.traits
        modifiers, scope = self._checker.machine.modifiers(site), int(traits.scopes[site])
        if "release" not in modifiers and self._unacquired:
            for lane in lanes.tolist():
                for found in self._unacquired.get(lane, {}).values():
                    self._acquire(lane, found, scope)
                if scope == DEVICE:
                    self._unacquired.pop(lane, None)
        if traits.sequential[site]:
            clocks.facts[KNOWN, lanes] = np.maximum(clocks.facts[KNOWN, lanes], clocks.facts[clocks.observed, lanes])
        if "acquire" not in modifiers:
            self._note_fence(lanes, scope)
        if traits.sequential[site]:
            clocks.facts[clocks.fenced, lanes] = clocks.facts[KNOWN, lanes]
            clocks.facts[clocks.fenced, lanes, clocks.column[lanes]] = self._checker.state.now

    def _note_fence(self, lanes: Indices, scope: int) -> None:
        """What lanes know is fenced for this scope and the narrower ones."""
        clocks, now = self._checker.clocks, self._checker.tick()
        rows = clocks.facts[:, lanes]
        rows[KNOWN, np.arange(lanes.size), clocks.column[lanes]] = now
        for index, lane in enumerate(lanes.tolist()):
            last = self._fenced[lane].rows if lane in self._fenced else [None] * (DEVICE + 1)
            row: Array = rows[:, index].copy()  # rather than a view, so that each goes when it can
            self._fenced[lane] = _Fenced([row if each <= scope else last[each] for each in range(DEVICE + 1)])

    def fenced(self, lane: int, scope: int) -> Array | None:
        """What a lane knew when it last fenced with this scope or a wider, (kinds, columns), if it has."""
        return self._fenced[lane].rows[scope] if lane in self._fenced else None

    def access(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """A strong access: it publishes what its thread released, and finds what others have."""
        checker, clocks = self._checker, self._checker.clocks
        instruction, scope = checker.machine.program.entry.instructions[site], int(checker.traits.scopes[site])
        acquires = any(order in instruction.modifiers for order in ("acquire", "acq_rel"))
        releases = any(order in instruction.modifiers for order in ("release", "acq_rel"))
        space = "global" if space == "global" else "shared"
        published = self._published[space]
        sequenced = clocks.sequential and clocks.facts[clocks.fenced, lanes].any(axis=1)
        if not (published or releases or np.any(sequenced) or not self._fenced.keys().isdisjoint(lanes.tolist())):
            return
        for lane, place, past_fence in zip(
            lanes.tolist(), where.tolist(), np.broadcast_to(sequenced, lanes.shape).tolist(), strict=True
        ):
            cta, last = checker.cta_of(lane), published.get(place)
            found, ordered = (_NOTHING, _NOTHING) if last is None else (last.released, last.sequenced)
            if last is not None and kind == "st":  # of its own cluster, whose threads may store the same
                alike = found is ordered
                found = self._nearby(cta, found)
                ordered = found if alike else self._nearby(cta, ordered)
            elif last is not None and self._apart(cta, last.cta) > min(scope, last.scope):
                found = ordered = _NOTHING
            elif instruction.opcode != "red":  # which reads nothing that its thread could go by
                if acquires:
                    self._acquire(lane, found, scope)
                elif found.releases:
                    self._unacquired.setdefault(lane, {})[space, place] = found
                if clocks.sequential:
                    self._observe(lane, ordered)
            if kind == "ld":
                continue
            if releases:
                self._note_fence(np.array([lane]), scope)
            release = self._release(lane) if lane in self._fenced else None
            sequence = self._sequence(lane, release) if past_fence else None
            alike = found is ordered and release is sequence  # as a rule, and then kept once
            found = self._with(found, cta, release)
            published[place] = Written(cta, scope, found, found if alike else self._with(ordered, cta, sequence))

    def _nearby(self, cta: int, carried: Carried) -> Carried:
        """What CTAs of the same cluster have released."""
        nearby = _NOTHING
        for other, release in carried.releases.items():
            if self._apart(cta, other) < DEVICE:
                nearby = self._with(nearby, other, release)
        return nearby

    def _with(self, carried: Carried, cta: int, release: Release | None) -> Carried:
        """Releases with one more, of a CTA."""
        if release is None:
            return carried
        cluster = cta // self._checker.topology.cluster_size
        told = {number: moment for number, moment in release.moments.items() if number != cluster}
        own = {cluster: release.moments[cluster]} if cluster in release.moments else {}
        if (before := carried.releases.get(cta)) is not None:
            release = self._joined(release, before)
        return Carried({**carried.releases, cta: release}, _latest(carried.own, own), _latest(carried.told, told))

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
        visible = self._checker.clocks.visible_global
        theirs = self._covered(lanes, clusters, columns, times, KNOWN, visible)
        return theirs | self._covered(lanes, clusters, columns, times, visible, KNOWN)

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
        fenced, clocks = self._fenced[lane], self._checker.clocks
        if fenced.release is None:
            moments: Moments = {}
            if (wide := fenced.rows[DEVICE]) is not None:
                wide = clocks.fit(wide)
                seen = clocks.visible_global
                moments = {
                    number: (int(wide[KNOWN, column]), int(wide[seen, column]) if seen < len(wide) else 0)
                    for number, column in clocks.of_kind("cluster")
                }
                self._enter(lane, wide, moments)
            fenced.release = Release(fenced.rows[: self._scopes], moments)
        return fenced.release

    def _sequence(self, lane: int, release: Release | None) -> Release:
        """What those fence.sc knew that happen before what a lane does; `release` if that says the same."""
        clocks = self._checker.clocks
        row, last = clocks.facts[clocks.fenced, lane], self._sequenced.get(lane)
        if release is not None and all(
            fenced is not None and np.array_equal(clocks.fit(fenced)[KNOWN], row) for fenced in self._fenced[lane].rows
        ):
            return release
        if last is None or not np.array_equal(last[0], row):
            rows = np.zeros_like(clocks.facts[:, lane])
            rows[KNOWN] = row
            moments: Moments = {number: (int(row[column]), 0) for number, column in clocks.of_kind("cluster")}
            self._enter(lane, rows, moments)
            last = self._sequenced[lane] = row.copy(), Release([rows] * self._scopes, moments)
        return last[1]

    def _enter(self, lane: int, rows: Array, moments: Moments) -> None:
        """Add what a lane releases to its cluster's history, and the moment to others."""
        cluster, now = self._checker.cluster_of(lane), self._checker.tick()
        histories = self._checker.state.histories
        if cluster not in histories:
            histories[cluster] = History()
        histories[cluster].add(now, rows)
        moments[cluster] = now, 0

    def _joined(self, first: Release, second: Release) -> Release:
        rows = [self._union(one, other) for one, other in zip(first.rows, second.rows, strict=True)]
        return Release(rows, _latest(first.moments, second.moments))

    def _union(self, one: Array | None, other: Array | None) -> Array | None:
        if one is None or other is None:
            return one if other is None else other
        return np.maximum(self._checker.clocks.fit(one), self._checker.clocks.fit(other))

    def _acquire(self, lane: int, carried: Carried, scope: int) -> None:
        """A lane acquires releases, as far as its scope includes their threads."""
        facts = self._checker.clocks.facts
        for row in self._rows_for(lane, carried, scope):
            facts[:, lane] = np.maximum(facts[:, lane], row)
        if scope == DEVICE:
            known, seen = self._learn_moments(lane, carried, KNOWN)
            clocks, history = self._checker.clocks, self._checker.state.histories.get(self._checker.cluster_of(lane))
            if history is not None and (rows := history.until(known)) is not None:
                clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], clocks.fit(rows))
            if history is not None and (rows := history.until(seen)) is not None:
                clocks.track_global_writes()
                visible = clocks.facts[clocks.visible_global, lane]
                np.maximum(visible, clocks.fit(rows)[KNOWN], out=visible)

    def _observe(self, lane: int, carried: Carried) -> None:
        """A lane may acquire releases past the next fence.sc of any thread that comes after it."""
        clocks = self._checker.clocks
        for row in self._rows_for(lane, carried, DEVICE):
            observed = clocks.facts[clocks.observed, lane]
            np.maximum(observed, row[KNOWN], out=observed)
        known, _ = self._learn_moments(lane, carried, clocks.observed)
        history = self._checker.state.histories.get(self._checker.cluster_of(lane))
        if history is not None and (rows := history.until(known)) is not None:
            observed = clocks.facts[clocks.observed, lane]
            np.maximum(observed, clocks.fit(rows)[KNOWN], out=observed)

    def _rows_for(self, lane: int, carried: Carried, scope: int) -> list[Array]:
        """What releases say to a lane of the same cluster, if its scope includes their threads."""
        own, rows = self._checker.cta_of(lane), []
        for cta, release in carried.releases.items():
            apart = self._apart(own, cta)
            if apart <= min(scope, CLUSTER) and (row := release.rows[apart]) is not None:
                rows.append(self._checker.clocks.fit(row))
        return rows

    def _learn_moments(self, lane: int, carried: Carried, kind: int) -> tuple[int, int]:
        """A lane gets to know of other clusters in rows of a kind; returns what these tell of its own."""
        clocks, here = self._checker.clocks, self._checker.cluster_of(lane)
        latest = _latest(carried.own, carried.told)
        if moments := {cluster: moment for cluster, moment in latest.items() if cluster != here}:
            columns = np.array([clocks.agent(("cluster", cluster)) for cluster in moments])
            known, seen = np.array(list(moments.values()), np.int32).T
            clocks.facts[kind, lane, columns] = np.maximum(clocks.facts[kind, lane, columns], known)
            if kind == KNOWN and seen.any():
                clocks.track_global_writes()
                visible = clocks.facts[clocks.visible_global, lane]
                visible[columns] = np.maximum(visible[columns], seen)
        return carried.told.get(here, (0, 0))


def active_lanes(group: Group, active: Any) -> Indices:
    """The lanes of a group where `active` holds (None: everywhere)."""
    return group.indices if active is None else group.indices[np.broadcast_to(active, (group.size,))]


def _latest(some: Moments, others: Moments) -> Moments:
    """For each cluster the latest moments."""
    if not others:
        return some
    latest = dict(some)
    for cluster, (known, seen) in others.items():
        known_before, seen_before = latest.get(cluster, (0, 0))
        latest[cluster] = max(known, known_before), max(seen, seen_before)
    return latest
