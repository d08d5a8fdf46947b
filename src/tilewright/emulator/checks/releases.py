"""The checks of synchronization through memory: flags, locks, tickets.

A strong store or atomic publishes what its thread released (with a fence before it, or .release). A thread that reads
it (with .acquire, or a fence after it) then knows that too. An atomic carries on what it finds, a store does not
("Observation order"). Within a cluster, the whole row of the clocks is passed on. For another cluster, a thread knows a
moment up to which it knows all that the cluster released.

All of this requires scopes that include both threads: the scopes of the write and of the read that finds it, and those
of the release and of the acquire (PTX ISA, "Morally strong operations", "Memory synchronization").

Sequentially consistent fences also synchronize with each other, in the order of a run ("Fence-SC order"). Only an order
that is the same in every run counts: the first fence happens before a strong write, a strong read finds that write, and
the read happens before the second fence. The barriers on the way may belong to other threads. So strong writes also
publish what such fences knew, and a thread that reads the write knows it past its next fence.
"""

from dataclasses import dataclass

import numpy as np

from tilewright.emulator.checks.carried import (
    ALL,
    NOTHING,
    SEEN,
    Moments,
    Past,
    Published,
    Release,
    ReleaseSet,
    Written,
    ended,
    later,
    latest,
)
from tilewright.emulator.checks.clocks import KNOWN
from tilewright.emulator.checks.ground import Ground
from tilewright.emulator.checks.history import History
from tilewright.emulator.lanes import Array, Indices, Mask
from tilewright.emulator.program.traits import CLUSTER, CTA, DEVICE


@dataclass(slots=True)
class _FenceSnapshot:
    """The knowledge of a lane at a fence: rows, (kinds, columns), which lanes share, and its own column, (kinds,)."""

    shared: Array
    own: Array
    column: int

    def rows(self) -> Array:
        """The complete rows, (kinds, columns)."""
        rows = self.shared.copy()
        rows[:, self.column] = self.own
        return rows


@dataclass(slots=True)
class _Fenced:
    """The knowledge of a lane at its last fence of each scope or a wider one, and the part that it publishes."""

    knew: list[_FenceSnapshot | None]
    release: Release | None = None


@dataclass(slots=True)
class _Acquirable:
    """The releases that a lane has read and may acquire: rows, from its CTA and its cluster, and moments.

    here: the latest moments of its own cluster, as other clusters pass them on.
    """

    rows: list[Array | None]
    moments: Moments
    here: tuple[int, int]


class Releases:
    """The releases of a wave's lanes, through global and shared memory."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._published: dict[str, Published] = {"shared": {}, "global": ground.state.published}
        self._scopes = DEVICE if ground.topology.cluster_size > 1 else CLUSTER  # the scopes that take whole rows
        self._fenced: dict[int, _Fenced] = {}  # by lane
        self._shared: dict[int, Array] = {}  # by CTA: what the last fencing lane knew, except its own column
        self._sequenced: dict[int, Release] = {}  # by lane: what it last published for fence.sc
        self._unacquired: dict[int, _Acquirable] = {}  # by lane: read, not fenced
        self._end_former()

    def _end_former(self) -> None:
        """Keep only moments of CTAs that have ended; one stands for all that a place carries if that is smaller."""
        state = self._ground.state
        carried = {id(each): each for last in state.published.values() for each in (last.released, last.sequenced)}
        whole = len(carried) < len(state.histories)
        left = {key: ended(each, whole) for key, each in carried.items()}
        for last in state.published.values():
            last.released, last.sequenced = left[id(last.released)], left[id(last.sequenced)]

    def fence(self, site: int, lanes: Indices) -> None:
        """membar or fence: writes after it that publish also release; reads before it also acquire."""
        clocks, traits = self._ground.clocks, self._ground.traits
        modifiers, scope = self._ground.words.modifiers(site), int(traits.scopes[site])
        if "release" not in modifiers and self._unacquired:
            for lane in lanes.tolist():
                if (heard := self._unacquired.get(lane)) is not None:
                    self._acquire(lane, heard, scope)
                    heard.rows[: scope + 1] = [None] * len(heard.rows[: scope + 1])
                if scope == DEVICE:
                    self._unacquired.pop(lane, None)
        if traits.sequential[site]:
            for lane in lanes[clocks.facts[clocks.observed, lanes, clocks.any_fence] > 0].tolist():
                clocks.facts[KNOWN, lane] = np.maximum(clocks.facts[KNOWN, lane], clocks.facts[clocks.observed, lane])
            clocks.facts[KNOWN, lanes, clocks.any_fence] = self._ground.tick()
        if "acquire" not in modifiers:
            self._note_fence(lanes, scope)
        if traits.sequential[site]:
            for lane in lanes.tolist():  # one by one, which copies no rows
                clocks.facts[clocks.fenced, lane] = clocks.facts[KNOWN, lane]
            clocks.facts[clocks.fenced, lanes, clocks.column[lanes]] = self._ground.state.now

    def _note_fence(self, lanes: Indices, scope: int) -> None:
        """Record the lanes' knowledge as fenced for this scope and the narrower ones."""
        clocks, now = self._ground.clocks, self._ground.tick()
        for lane in lanes.tolist():
            before = self._fenced[lane].knew if lane in self._fenced else [None] * (DEVICE + 1)
            rows, column, cta = clocks.facts[:, lane].copy(), int(clocks.column[lane]), self._ground.cta_of(lane)
            own, rows[:, column] = rows[:, column].copy(), 0
            own[KNOWN] = now
            if not np.array_equal(shared := self._shared.setdefault(cta, rows), rows):
                shared = self._shared[cta] = rows
            knew = _FenceSnapshot(shared, own, column)
            self._fenced[lane] = _Fenced([knew if each <= scope else before[each] for each in range(DEVICE + 1)])

    def fenced(self, lane: int, scope: int) -> Array | None:
        """The knowledge of a lane when it last fenced with this scope or a wider one, (kinds, columns), if it has."""
        knew = self._fenced[lane].knew[scope] if lane in self._fenced else None
        return None if knew is None else knew.rows()

    def access(self, kind: str, space: str, site: int, lanes: Indices, where: Indices) -> None:
        """A strong access: it publishes what its thread released and finds what other threads released."""
        ground, clocks = self._ground, self._ground.clocks
        instruction, scope = ground.wave.program.entry.instructions[site], int(ground.traits.scopes[site])
        acquires = any(order in instruction.modifiers for order in ("acquire", "acq_rel"))
        releases = any(order in instruction.modifiers for order in ("release", "acq_rel"))
        space = "global" if space == "global" else "shared"
        published = self._published[space]
        sequenced = clocks.sequential and clocks.facts[clocks.fenced, lanes, clocks.any_fence] > 0
        if not (published or releases or np.any(sequenced) or not self._fenced.keys().isdisjoint(lanes.tolist())):
            return
        for lane, place, past_fence in zip(
            lanes.tolist(), where.tolist(), np.broadcast_to(sequenced, lanes.shape).tolist(), strict=True
        ):
            cta, last = ground.cta_of(lane), published.get(place)
            found, ordered = (NOTHING, NOTHING) if last is None else (last.released, last.sequenced)
            if last is not None and (kind == "st" or self._apart(cta, last.cta) > min(scope, last.scope)):
                found = ordered = NOTHING
            elif instruction.opcode != "red":  # red returns no value to its thread
                if found is not NOTHING:
                    if acquires:
                        self._acquire(lane, self._hear(lane, found), scope)
                    else:
                        self._unacquired[lane] = self._hear(lane, found, self._unacquired.get(lane))
                if clocks.sequential and ordered is not NOTHING:
                    self._observe(lane, self._hear(lane, ordered))
            if kind == "ld":
                continue
            if releases:
                self._note_fence(np.array([lane]), scope)
            release = self._release(lane) if lane in self._fenced else None
            sequence = self._sequence(lane, release) if past_fence else None
            alike = found is ordered and release is sequence  # the usual case, kept only once
            found = self._with(found, cta, release)
            published[place] = Written(cta, scope, found, found if alike else self._with(ordered, cta, sequence))

    def _with(self, carried: ReleaseSet, cta: int, release: Release | None) -> ReleaseSet:
        """Releases with one more, by a CTA."""
        if release is None:
            return carried
        cluster = cta // self._ground.topology.cluster_size
        told = {number: moment for number, moment in release.moments.items() if number != cluster}
        own: Moments = {cluster: release.moments[cluster]} if cluster in release.moments else {}
        if (before := carried.releases.get(cta)) is not None:
            release = self._joined(release, before)
        return ReleaseSet({**carried.releases, cta: release}, latest(carried.own, own), latest(carried.told, told))

    def _apart(self, cta: int, other: int) -> int:
        """The narrowest scope that includes threads of both CTAs."""
        size = self._ground.topology.cluster_size
        return CTA if cta == other else CLUSTER if cta // size == other // size else DEVICE

    def morally_strong(self, site: int, lanes: Indices, sites: Array, columns: Array, foreign: Mask) -> Mask:
        """Whether past accesses are strong and all scopes involved include both threads.

        columns, foreign: the columns of the past accesses, and whether they are of another cluster.
        """
        topology, traits = self._ground.topology, self._ground.traits
        same_cta = columns // topology.threads == topology.cta[lanes] % topology.cluster_size
        needed = np.where(foreign, DEVICE, np.where(same_cta, CTA, CLUSTER))
        return np.asarray(traits.strong[sites] & (np.minimum(traits.scopes[sites], traits.scopes[site]) >= needed))

    def meetings_beyond_scope(self, site: int, lanes: Indices, where: Indices) -> list[tuple[int, int]]:
        """Pairs of lanes of one instruction, by index, that access one place without a common scope."""
        ground = self._ground
        ctas = np.asarray(ground.wave.cta_numbers[ground.topology.cta[lanes]])
        teams = ctas if ground.traits.scopes[site] == CTA else ground.clusters_of(lanes)
        order = np.lexsort((teams, where))
        place, team = where[order], teams[order]
        met = np.flatnonzero((place[1:] == place[:-1]) & (team[1:] != team[:-1]))
        return list(zip(order[met].tolist(), order[met + 1].tolist(), strict=True))

    def knows(self, lanes: Indices, clusters: Array, columns: Array, times: Array) -> Mask:
        """Whether lanes know of accesses that other clusters made."""
        return self._covered(lanes, clusters, columns, times, KNOWN, KNOWN)

    def sees(self, lanes: Indices, clusters: Array, columns: Array, times: Array) -> Mask:
        """Whether asynchronous operations of lanes see ordinary writes of other clusters to global memory.

        The fence between proxies may be the writer's, before its release, or the lane's, after its acquire.
        """
        visible = self._ground.clocks.visible_global
        theirs = self._covered(lanes, clusters, columns, times, KNOWN, visible)
        return theirs | self._covered(lanes, clusters, columns, times, visible, KNOWN)

    def _covered(
        self, lanes: Indices, clusters: Array, columns: Array, times: Array, acquired: int, released: int
    ) -> Mask:
        """Whether accesses are among the releases of clusters in one kind of rows, as acquired in another kind."""
        known = np.zeros(lanes.size, np.bool_)
        clocks, histories = self._ground.clocks, self._ground.state.histories
        facts = clocks.facts[acquired]
        pasts = [(key, column) for key, column in clocks.clusters.items() if isinstance(key, Past)]
        pasts = [(past, column) for past, column in pasts if facts[lanes, column].any()]
        for cluster in np.unique(clusters).tolist():
            if (history := histories.get(cluster)) is None:
                continue
            here = np.flatnonzero(clusters == cluster)
            column = clocks.clusters.get(cluster)
            moments = np.zeros(here.size, np.int32) if column is None else facts[lanes[here], column]
            for past, column in pasts:
                part = facts[lanes[here], column]
                told = [0, *(past.until(each).get(cluster, 0) for each in (SEEN, ALL))]
                moments = np.maximum(moments, np.array(told, np.int32)[part])
            for moment in np.unique(moments).tolist():
                some = here[moments == moment]
                known[some] = history.covers(moment, released, columns[some], times[some])
        return known

    def _release(self, lane: int) -> Release:
        """The release of a lane: its knowledge at its last fences."""
        fenced, clocks = self._fenced[lane], self._ground.clocks
        if fenced.release is None:
            moments: Moments = {}
            rows = [None if knew is None else clocks.fit(knew.rows()) for knew in fenced.knew]
            for scope in range(DEVICE):  # one array for scopes with the same knowledge
                rows[scope] = rows[DEVICE] if fenced.knew[scope] is fenced.knew[DEVICE] else rows[scope]
            if (wide := rows[DEVICE]) is not None:
                moments = self._moments(wide[KNOWN], *wide[clocks.visible_global : clocks.visible_global + 1])
                self._enter(lane, wide, moments)
            fenced.release = Release(rows[: self._scopes], moments)
        return fenced.release

    def _moments(self, known: Array, seen: Array | None = None) -> Moments:
        """The moments of other clusters in rows."""
        clusters = self._ground.clocks.clusters
        columns = np.fromiter(clusters.values(), np.int64, len(clusters))
        seen = np.zeros_like(known) if seen is None else seen
        pairs = zip(clusters, known[columns].tolist(), seen[columns].tolist(), strict=True)
        return {cluster: (time, visible) for cluster, time, visible in pairs if time or visible}

    def _sequence(self, lane: int, release: Release | None) -> Release:
        """The knowledge of the fence.sc that happen before a lane's next action; `release` if that says the same."""
        clocks = self._ground.clocks
        row, last = clocks.facts[clocks.fenced, lane], self._sequenced.get(lane)
        if release is not None and (rows := release.rows[CTA]) is not None:
            knew = self._fenced[lane].knew
            if knew[DEVICE] is knew[CTA] and np.array_equal(clocks.fit(rows)[KNOWN], row):
                return release
        if last is None or (before := last.rows[CTA]) is None or not np.array_equal(clocks.fit(before)[KNOWN], row):
            rows = np.zeros_like(clocks.facts[:, lane])
            rows[KNOWN] = row
            moments = self._moments(row)
            self._enter(lane, rows, moments)
            last = self._sequenced[lane] = Release([rows] * self._scopes, moments)
        return last

    def _enter(self, lane: int, rows: Array, moments: Moments) -> None:
        """Add what a lane releases to its cluster's history, and the moment to others."""
        cluster, now = self._ground.cluster_of(lane), self._ground.tick()
        histories = self._ground.state.histories
        if cluster not in histories:
            histories[cluster] = History()
        histories[cluster].add(now, rows)
        moments[cluster] = now, 0

    def _joined(self, first: Release, second: Release) -> Release:
        rows: list[Array | None] = []
        for scope, (one, other) in enumerate(zip(first.rows, second.rows, strict=True)):
            same = scope > 0 and one is first.rows[scope - 1] and other is second.rows[scope - 1]
            rows.append(rows[-1] if same else self._union(one, other))
        return Release(rows, latest(first.moments, second.moments))

    def _union(self, one: Array | None, other: Array | None) -> Array | None:
        """The union of two rows: one of them if it contains the other, so several users may share it."""
        if one is None or other is None or one is other:
            return one if other is None else other
        joined = np.maximum(self._ground.clocks.fit(one), self._ground.clocks.fit(other))
        return next((row for row in (one, other) if np.array_equal(row, joined)), joined)

    def _hear(self, lane: int, carried: ReleaseSet, before: _Acquirable | None = None) -> _Acquirable:
        """The releases that a lane reads, joined with those it has read before."""
        cta, size, heard = self._ground.cta_of(lane), self._ground.topology.cluster_size, before
        if heard is None:
            heard = _Acquirable([None] * self._scopes, {}, (0, 0))
        cluster = cta // size
        for other in range(cluster * size, (cluster + 1) * size):
            if (release := carried.releases.get(other)) is not None:
                apart = self._apart(cta, other)
                heard.rows[apart] = self._union(heard.rows[apart], release.rows[apart])
        heard.moments = latest(latest(heard.moments, carried.own), carried.told)
        heard.here = later(heard.here, carried.told.get(cluster, (0, 0)))
        return heard

    def _acquire(self, lane: int, heard: _Acquirable, scope: int) -> None:
        """Let a lane acquire what it read, as far as its scope includes the releasing threads."""
        clocks = self._ground.clocks
        for row in heard.rows[: scope + 1]:
            if row is not None:
                clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], clocks.fit(row))
        if scope == DEVICE:
            self._learn_moments(lane, heard, KNOWN)
            known, seen = (self._released_here(lane, moment) for moment in heard.here)
            if known is not None:
                clocks.facts[:, lane] = np.maximum(clocks.facts[:, lane], clocks.fit(known))
            if seen is not None:
                clocks.track_global_writes()
                visible = clocks.facts[clocks.visible_global, lane]
                np.maximum(visible, clocks.fit(seen)[KNOWN], out=visible)

    def _observe(self, lane: int, heard: _Acquirable) -> None:
        """Note that a lane may acquire what it read past the next fence.sc of any thread that comes after it."""
        clocks = self._ground.clocks
        self._learn_moments(lane, heard, clocks.observed)
        observed = clocks.facts[clocks.observed, lane]
        observed[clocks.any_fence] = self._ground.state.now
        for row in (*heard.rows, self._released_here(lane, heard.here[0])):
            if row is not None:
                np.maximum(observed, clocks.fit(row)[KNOWN], out=observed)

    def _released_here(self, lane: int, moment: int) -> Array | None:
        """The releases of the lane's own cluster up to a moment that other clusters pass on."""
        history = self._ground.state.histories.get(self._ground.cluster_of(lane)) if moment else None
        return None if history is None else history.until(moment)

    def _learn_moments(self, lane: int, heard: _Acquirable, kind: int) -> None:
        """Let a lane learn about other clusters in rows of a kind."""
        clocks, here = self._ground.clocks, self._ground.cluster_of(lane)
        if moments := {cluster: moment for cluster, moment in heard.moments.items() if cluster != here}:
            columns = clocks.columns_of(moments)
            known, seen = np.array(list(moments.values()), np.int32).T
            clocks.facts[kind, lane, columns] = np.maximum(clocks.facts[kind, lane, columns], known)
            if kind == KNOWN and seen.any():
                clocks.track_global_writes()
                visible = clocks.facts[clocks.visible_global, lane]
                visible[columns] = np.maximum(visible[columns], seen)
