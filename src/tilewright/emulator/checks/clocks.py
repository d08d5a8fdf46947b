"""Who knows of what: happens-before among threads and asynchronous agents, as vector clocks.

Time is one counter that each checked operation advances. For every lane there is a row with a column for each thread of
its cluster: everything that this thread did up to the time in the column happens before what the lane does next. A
second row says the same of ordinary writes to shared memory as asynchronous operations see them, past
fence.proxy.async, and a third of those to global memory. Further columns belong to agents: the copies that signal an
mbarrier, the wgmmas of a warpgroup, what the bulk stores of a thread read and what they write; to the initialization of
an mbarrier; and to other clusters as a whole: to each, or to all whose releases a place held when they had ended.

In clusters a fourth row says what a lane only knows to be over: it may overwrite what was read or copied until then,
and not read what was written. That is what an mbarrier passes on between CTAs if an arrival or a wait has .cta scope.

Where there are fence.sc two more rows follow these fences from one thread to another (releases.py): one says of what
the fence.sc that happen before knew, the other of what the next fence.sc will get to know.
"""

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from tilewright.emulator.checks.carried import Past
from tilewright.emulator.lanes import Array, Group, Indices, Topology
from tilewright.emulator.program.traits import Traits

KNOWN = 0
_ABSENT = 99
"""The number of a kind of rows that is not there, above all that are."""

_SPARE = 96


class Clocks:
    """facts[kind], (lanes, columns), where kind is KNOWN or one of the attributes below.

    visible, visible_global: past fence.proxy.async; there if `proxies` and in clusters. over: without clusters KNOWN,
    which says as much. fenced, observed: of fence.sc; there if `sequential`.

    Without clusters visible_global comes later, with the first write to global memory: what was before makes no
    difference to it.
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
        others = topology.ctas // topology.cluster_size if sequential else 0  # of which most last blocks know
        self.facts = np.zeros((kinds, topology.lanes, self.base + _SPARE + others), np.int32)
        self.column = topology.cta % topology.cluster_size * topology.threads + topology.thread
        self._agents: dict[Hashable, int] = {}
        self.ordinary = np.ones(self.base, np.bool_)  # by column: whether it is of a thread, or of what writes like one
        self._used = self.base
        self.clusters: dict[int | Past, int] = {}  # columns of other clusters, or of many together
        self.any_fence = self.agent("fence.sc") if sequential else _ABSENT  # known to who knows of any

    def agent(self, key: Hashable, count: int = 1, ordinary: bool = False) -> int:
        """The first of an agent's `count` columns, made at first use; `ordinary` if it writes as threads do."""
        if key not in self._agents:
            self._agents[key] = self._used
            self.ordinary = np.append(self.ordinary, np.full(count, ordinary))
            self._used += count
            if self._used > self.facts.shape[2]:
                self.facts = self.fit(self.facts, self._used + max(_SPARE, (self._used - self.base) // 2))
        return self._agents[key]

    def columns_of(self, clusters: Collection[int | Past]) -> Indices:
        """The columns of other clusters; those that are missing are made together."""
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
        """Rows, ([kinds,] ..., columns), with as many columns and kinds as there are now."""
        wanted = self.facts.shape[2] if columns is None else columns
        missing, missing_kinds = max(wanted - rows.shape[-1], 0), (len(self.facts) - len(rows)) if kinds else 0
        if not missing and not missing_kinds:
            return rows
        padding = [(0, missing_kinds), *[(0, 0)] * (rows.ndim - 2), (0, missing)]
        return np.asarray(np.pad(rows, padding))

    def track_global_writes(self) -> None:
        """Threads write global memory from now on, which bulk copies read."""
        if self.visible_global == _ABSENT:
            self.visible_global = len(self.facts)
            self.facts = np.concatenate([self.facts, np.zeros_like(self.facts[:1])])

    def nothing(self, count: int) -> Array:
        """Empty rows, (kinds, count, columns)."""
        return np.zeros((self.facts.shape[0], count, self.facts.shape[2]), np.int32)

    def only_over(self, rows: Array) -> Array:
        """Of rows (kinds, rows, columns) what is known to be over, and nothing else; in clusters."""
        left = np.zeros_like(rows)
        left[self.over] = np.maximum(rows[KNOWN], rows[self.over])
        return left

    def overwritable(self, lanes: Indices, columns: Indices) -> Array:
        """Until when lanes know that what threads or agents read, or agents copied, is over."""
        return np.asarray(np.maximum(self.facts[KNOWN, lanes, columns], self.facts[self.over, lanes, columns]))

    def released(self, group: Group, now: int) -> Array:
        """What the lanes of a group know together, with all they did until now, by CTA slot: (kinds, ctas, columns)."""
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
        """The lanes of a group get to know what the row of their CTA slot says."""
        ctas = self._topology.ctas
        rows = self.fit(rows)
        whole = _whole_threads(group, ctas)
        if whole is not None:
            facts = self.facts[:, whole].reshape(self.facts.shape[0], -1, ctas, self.facts.shape[2])
            np.maximum(facts, rows[:, None], out=facts)
        else:
            self.facts[:, group.indices] = np.maximum(self.facts[:, group.indices], rows[:, group.cta])

    def meet(self, lanes: Indices, now: int) -> None:
        """Tiles of lanes, (tiles, width), get to know what all of their tile know."""
        facts = self.facts[:, lanes]
        facts[KNOWN, np.arange(len(lanes))[:, None], np.arange(lanes.shape[1]), self.column[lanes]] = now
        self.facts[:, lanes] = facts.max(axis=2, keepdims=True)

    def fence_proxies(self, group: Group, now: int, spaces: Sequence[str]) -> None:
        """fence.proxy.async: asynchronous operations that follow see all writes to `spaces` that the lanes know of."""
        for kind in [self.visible] * ("shared" in spaces) + [self.visible_global] * ("global" in spaces):
            if kind != _ABSENT:
                known, visible = self.facts[KNOWN, group.lanes], self.facts[kind, group.lanes]
                self.facts[kind, group.lanes] = np.maximum(known, visible)
                self.facts[kind, group.indices, self.column[group.lanes]] = now


def nbytes_of_lane(traits: Traits, threads: int, cluster: int, clusters: int) -> int:
    """What the rows of a lane take in CTAs of so many threads and clusters of so many CTAs.

    clusters: how many run together and may know of each other, if there is anything that releases.
    """
    kinds = 1 + (3 if cluster > 1 else traits.asynchronous + traits.bulk) + 2 * bool(traits.sequential.any())
    mbarriers = 2 * cluster * traits.inits * 3 // 2  # and their initializations, in rows that grow by half
    columns = cluster * threads + _SPARE + mbarriers + (clusters if traits.strong.any() else 0)
    return kinds * columns * np.dtype(np.int32).itemsize


def _whole_threads(group: Group, ctas: int) -> slice | None:
    """The lanes, if they are all CTAs' copies of some consecutive threads."""
    lanes = group.lanes
    if isinstance(lanes, slice) and lanes.start % ctas == 0 and group.size % ctas == 0:
        return lanes
    return None
