"""Vector clocks: happens-before among threads and asynchronous agents.

Time is one counter that each checked operation advances. Every lane has a row with a column for each thread of its
cluster: everything that this thread did up to the time in the column happens before what the lane does next. A second
row holds the same for ordinary writes to shared memory as asynchronous operations see them, past fence.proxy.async, and
a third row does so for global memory. Further columns belong to agents: the copies that signal an mbarrier, the wgmmas
of a warpgroup, the reads and the writes of a thread's bulk stores. There is also a column for the initialization of an
mbarrier, and columns for other clusters as a whole: one for each, or one for all whose releases a place held when they
had ended.

In clusters, a fourth row holds what a lane only knows to be over: it may overwrite what was read or copied until then,
but may not read what was written. An mbarrier passes on just this between CTAs if an arrival or a wait has .cta scope.

If a program has fence.sc, two more rows follow these fences from one thread to another (releases.py): one holds what
the fence.sc that happen before knew, the other what the next fence.sc will learn.
"""

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from tilewright.emulator.checks.carried import Past
from tilewright.emulator.lanes import Array, Group, Indices, Topology
from tilewright.emulator.program.traits import Traits

KNOWN = 0
_ABSENT = 99
"""The number of a missing kind of rows, above all kinds that exist."""

_SPARE = 96


class Clocks:
    """The vector clocks of all lanes: facts[kind], (lanes, columns), for KNOWN and the kinds of rows below.

    visible, visible_global: past fence.proxy.async; they exist if `proxies` and in clusters.
    over: equal to KNOWN without clusters, where KNOWN says as much.
    fenced, observed: the rows of fence.sc; they exist if `sequential`.

    Without clusters, visible_global is added with the first write to global memory: earlier facts make no difference to
    it.
    """

    def __init__(self, topology: Topology, proxies: bool, sequential: bool) -> None:
        self._topology = topology
        self.base = topology.cluster_size * topology.threads
        cluster, kinds = topology.cluster_size > 1, 1
        self.visible, self.visible_global, self.over, self.fenced, self.observed = [_ABSENT] * 5
        if proxies or cluster:
            self.visible, kinds = kinds, kinds + 1
        if cluster:
            self.visible_global, self.over, kinds = kinds, kinds + 1, kinds + 2
        else:
            self.over = KNOWN
        self.sequential = sequential
        if sequential:
            self.fenced, self.observed, kinds = kinds, kinds + 1, kinds + 2
        others = topology.ctas // topology.cluster_size if sequential else 0  # most last blocks know of them
        # Rows of one more kind, for track_global_writes: pages that nobody writes take no memory.
        self._room = np.zeros((kinds + 1, topology.lanes, self.base + _SPARE + others), np.int32)
        self.facts = self._room[:kinds]
        self.column = topology.cta % topology.cluster_size * topology.threads + topology.thread
        self._agents: dict[Hashable, int] = {}
        self.ordinary = np.ones(self.base, np.bool_)  # columns of threads, and of agents like them
        self._used = self.base
        self.clusters: dict[int | Past, int] = {}  # columns of other clusters, or of several clusters together
        self.any_fence = self.agent("fence.sc") if sequential else _ABSENT  # known to every lane that knows of any

    def agent(self, key: Hashable, count: int = 1, ordinary: bool = False) -> int:
        """The first of an agent's `count` columns, made at first use; `ordinary` if it writes as threads do."""
        if key not in self._agents:
            self._agents[key] = self._used
            self.ordinary = np.append(self.ordinary, np.full(count, ordinary))
            self._used += count
            if self._used > self.facts.shape[2]:
                columns = self._used + max(_SPARE, (self._used - self.base) // 2)
                self._room = self.fit(self._room, columns, kinds=False)
                self.facts = self._room[: len(self.facts)]
        return self._agents[key]

    def columns_of(self, clusters: Collection[int | Past]) -> Indices:
        """The columns of other clusters; missing ones are made together."""
        missing = [cluster for cluster in clusters if cluster not in self.clusters]
        if missing:
            first = self.agent(("clusters", len(self.clusters)), len(missing))
            self.clusters.update(zip(missing, range(first, first + len(missing)), strict=True))
        return np.array([self.clusters[cluster] for cluster in clusters])

    def owner_of(self, column: int) -> Hashable:
        """The key of the agent with this column; None for a thread."""
        if column < self.base:
            return None
        return max((item for item in self._agents.items() if item[1] <= column), key=lambda item: item[1])[0]

    def fit(self, rows: Array, columns: int | None = None, kinds: bool = True) -> Array:
        """Rows, ([kinds,] ..., columns), extended to the present numbers of columns and kinds."""
        wanted = self.facts.shape[2] if columns is None else columns
        missing, missing_kinds = max(wanted - rows.shape[-1], 0), (len(self.facts) - len(rows)) if kinds else 0
        if not missing and not missing_kinds:
            return rows
        padding = [(0, missing_kinds), *[(0, 0)] * (rows.ndim - 2), (0, missing)]
        return np.asarray(np.pad(rows, padding))

    def track_global_writes(self) -> None:
        """Track writes of threads to global memory from now on, since bulk copies read it."""
        if self.visible_global == _ABSENT:
            self.visible_global = len(self.facts)
            self.facts = self._room[: len(self.facts) + 1]

    def nothing(self, count: int) -> Array:
        """Empty rows, (kinds, count, columns)."""
        return np.zeros((self.facts.shape[0], count, self.facts.shape[2]), np.int32)

    def only_over(self, rows: Array) -> Array:
        """Rows (kinds, rows, columns) reduced to what is known to be over; in clusters."""
        left = np.zeros_like(rows)
        left[self.over] = np.maximum(rows[KNOWN], rows[self.over])
        return left

    def overwritable(self, lanes: Indices, columns: Indices | int) -> Array:
        """The times up to which lanes know that reads of threads or agents, or copies of agents, are over."""
        return np.asarray(np.maximum(self.facts[KNOWN, lanes, columns], self.facts[self.over, lanes, columns]))

    def released(self, group: Group, now: int) -> Array:
        """The joint knowledge of a group's lanes, with all they did until now, by CTA slot: (kinds, ctas, columns)."""
        ctas = self._topology.ctas
        whole = _whole_threads(group, ctas)
        if whole is not None:
            facts = self.facts[:, whole].reshape(self.facts.shape[0], -1, ctas, self.facts.shape[2])
            rows: Array = facts.max(axis=1)
        else:
            rows = self.nothing(ctas)
            order = np.argsort(group.cta, kind="stable")
            slots, starts = np.unique(group.cta[order], return_index=True)
            facts = self.facts[:, group.indices[order]]
            rows[:, slots] = np.maximum.reduceat(facts, starts, axis=1)
        rows[KNOWN, group.cta, self.column[group.lanes]] = now
        return rows

    def learn(self, group: Group, rows: Array) -> None:
        """Let the lanes of a group learn the row of their CTA slot."""
        ctas = self._topology.ctas
        rows = self.fit(rows)
        whole = _whole_threads(group, ctas)
        if whole is not None:
            facts = self.facts[:, whole].reshape(self.facts.shape[0], -1, ctas, self.facts.shape[2])[..., : self._used]
            np.maximum(facts, rows[:, None, :, : self._used], out=facts)
        else:
            self.facts[:, group.indices] = np.maximum(self.facts[:, group.indices], rows[:, group.cta])

    def meet(self, lanes: Indices, now: int) -> None:
        """Let all lanes of a tile, (tiles, width), learn what any of them knows."""
        facts = self.facts[:, lanes]
        facts[KNOWN, np.arange(len(lanes))[:, None], np.arange(lanes.shape[1]), self.column[lanes]] = now
        self.facts[:, lanes] = facts.max(axis=2, keepdims=True)

    def meet_in_warps(self, group: Group, now: int) -> bool:
        """The same for the lanes of each warp of a group, in place; False if the group is not whole warps in all CTAs.

        Warp by warp, the rows stay in the cache of the processor between reading and writing.
        """
        tiles = group.warps
        if not isinstance(group.lanes, slice) or not tiles.is_reshape:
            return False
        self.facts[KNOWN, group.lanes][np.arange(group.size), self.column[group.lanes]] = now
        for facts in self.facts[:, group.lanes]:
            for rows in facts.reshape(*tiles.shape, -1)[..., : self._used]:
                rows[...] = rows.max(axis=0)
        return True

    def fence_proxies(self, group: Group, now: int, spaces: Sequence[str]) -> None:
        """fence.proxy.async: later asynchronous operations see all writes to `spaces` that the lanes know of."""
        for kind in [self.visible] * ("shared" in spaces) + [self.visible_global] * ("global" in spaces):
            if kind != _ABSENT:
                known, visible = self.facts[KNOWN, group.lanes], self.facts[kind, group.lanes]
                self.facts[kind, group.lanes] = np.maximum(known, visible)
                self.facts[kind, group.indices, self.column[group.lanes]] = now


def nbytes_of_lane(traits: Traits, threads: int, cluster: int, clusters: int) -> int:
    """The bytes of a lane's rows, for CTAs of `threads` threads and clusters of `cluster` CTAs.

    clusters: the number of clusters that run together and may know of each other, if anything releases.
    """
    kinds = 1 + (3 if cluster > 1 else traits.asynchronous + traits.bulk) + 2 * bool(traits.sequential.any())
    mbarriers = 2 * cluster * traits.inits * 3 // 2  # and their initializations, in rows that grow by half
    columns = cluster * threads + _SPARE + mbarriers + (clusters if traits.strong.any() else 0)
    return kinds * columns * np.dtype(np.int32).itemsize


def _whole_threads(group: Group, ctas: int) -> slice | None:
    """The lanes as a slice, if they are consecutive threads in all CTAs."""
    lanes = group.lanes
    if isinstance(lanes, slice) and lanes.start % ctas == 0 and group.size % ctas == 0:
        return lanes
    return None
