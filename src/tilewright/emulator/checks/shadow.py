"""Shadow memory: for each cell of a memory, the last writer and the readers since, with times.

An access is packed into 62 bits and one flag: its time (clocks.py), its column there, and its instruction. Accesses of
asynchronous agents have the flag, which makes them later than any time. A cell is as wide as the narrowest access of
the program, so neighbors never share one.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from tilewright.emulator.lanes import WARP, Array, Indices
from tilewright.rounding import ceil_div

_COLUMN_SHIFT, _TIME_SHIFT = 18, 33
_SITES, _COLUMNS, _TIMES = 1 << _COLUMN_SHIFT, 1 << 15, 1 << 29
ASYNC = 1 << 62
NEVER = _TIMES - 1
"""The time of accesses that are not over yet."""


def pack(time: int, column: Array | int, site: int, asynchronous: bool = False) -> Array:
    """An access as one integer."""
    return np.asarray(
        (time << _TIME_SHIFT) + (np.asarray(column, np.int64) << _COLUMN_SHIFT) + site + (ASYNC if asynchronous else 0)
    )


def until(time: Array | int) -> Array:
    """The largest packed access of threads up to a time."""
    return np.asarray(((np.asarray(time, np.int64) + 1) << _TIME_SHIFT) - 1)


def time_of(access: Array) -> Array:
    """When an access happened."""
    return np.asarray(access >> _TIME_SHIFT & (_TIMES - 1))


def column_of(access: Array) -> Array:
    """The column that made an access."""
    return np.asarray(access >> _COLUMN_SHIFT & (_COLUMNS - 1))


def same_column(access: Array, other: Array) -> Array:
    """Whether two accesses have the same column."""
    return np.asarray((access ^ other) & (_COLUMNS - 1 << _COLUMN_SHIFT) == 0)


def site_of(access: Array) -> Array:
    """The index of its instruction."""
    return np.asarray(access & (_SITES - 1))


def is_asynchronous(access: Array) -> Array:
    """Whether an agent made an access."""
    return np.asarray(access >= ASYNC)


class SharedShadow:
    """The shadow cells of a wave's shared memory.

    writes: (cells,), the last write.
    latest: (cells,), the latest read of a thread.
    reads: (slots, cells), the latest read of each warp, then, in clusters, of threads of other CTAs.
    replaced: (cells,), the latest read that another thread's has replaced there, so that its own hides none.
    agent_reads: (cells,) for each agent, its latest read.
    """

    def __init__(self, nbytes: int, ctas: int, cell: int, threads: int, cluster: bool) -> None:
        self.cell, self._ctas = cell, ctas
        self.slots = _slots(threads, cluster)
        cells = ceil_div(nbytes, cell)
        self.writes = np.zeros(cells, np.int64)
        self.latest = np.zeros(cells, np.int64)
        self.reads = np.zeros((self.slots, cells), np.int64)
        self.replaced = np.zeros(cells, np.int64)
        self.agent_reads: dict[Hashable, Array] = {}
        self._used = np.zeros(self.slots, np.bool_)

    def by_cta(self, cells: Array) -> Array:
        """A view of cells as (ctas, cells of a CTA)."""
        view: Array = cells.reshape(self._ctas, -1)
        return view

    def mark_read(self, slots: Indices, cells: Indices, access: Array, floor: Array) -> None:
        """Record reads of threads, given the slots of the threads; all know of accesses up to the floor."""
        self._used[slots] = True
        last = self.reads[slots[:, None], cells]
        self.latest[cells] = np.maximum(self.latest[cells], access)
        self.reads[slots[:, None], cells] = access
        recent = last > floor
        if recent.any():
            moved = recent & ~same_column(last, access)
            self.replaced[cells[moved]] = last[moved]
        lost = self.reads[slots[:, None], cells] != access  # to a lane that comes later in this instruction
        if lost.any():
            self.replaced[cells[lost]] = np.broadcast_to(access, cells.shape)[lost]

    def reads_of(self, agent: Hashable) -> Array:
        """The reads of an agent, as a writable array."""
        if agent not in self.agent_reads:
            self.agent_reads[agent] = np.zeros(self.latest.shape, np.int64)  # unused pages cost nothing
        return self.agent_reads[agent]

    def used_reads(self) -> list[Array]:
        """The latest reads of threads, those that were replaced, those of each slot and of agents, where any exist."""
        threads = [self.reads[slot] for slot in np.flatnonzero(self._used).tolist()]
        return [*([self.latest, self.replaced] if threads else []), *threads, *self.agent_reads.values()]

    def cells(self, where: Indices, width: int) -> Indices:
        """The cells of accesses at byte offsets: (lanes, cells of one)."""
        count = max(width // self.cell, 1)
        first = np.asarray(where) // self.cell
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)


def nbytes_of_shared(nbytes: int, cell: int, threads: int, cluster: bool) -> int:
    """The bytes of the shadow of a CTA's shared memory, for `threads` threads and no reads by agents."""
    return ceil_div(nbytes, cell) * (3 + _slots(threads, cluster)) * np.dtype(np.int64).itemsize


def _slots(threads: int, cluster: bool) -> int:
    return ceil_div(threads, WARP) + cluster


@dataclass(slots=True)
class GlobalShadow:
    """The shadow cells of one allocation of global memory; the cluster of an access is its number in the grid.

    reads, read_clusters: (2, cells), the last read, and the last read by another thread than that.
    narrow: the last strong writes whose scope is not the device, and their clusters; later writes do not hide them.
    None before the first.
    deferred: functions that record reads of bulk copies, called once the allocation is written.
    """

    start: int
    end: int
    cell: int
    writes: Array
    write_clusters: Array
    reads: Array
    read_clusters: Array
    written: bool = False
    narrow: tuple[Array, Array] | None = None
    deferred: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def of(cls, start: int, size: int, cell: int) -> "GlobalShadow":
        """The shadow of an untouched allocation."""
        cells = ceil_div(size, cell)
        return cls(
            start, start + size, cell, np.zeros(cells, np.int64), np.zeros(cells, np.int32),
            np.zeros((2, cells), np.int64), np.zeros((2, cells), np.int32),
        )  # fmt: skip

    def read(self, cells: Indices, access: Array, clusters: Array) -> None:
        """Record that threads read cells, (lanes, cells of one); access and clusters are (lanes, 1)."""
        last, last_clusters = self.reads[0][cells], self.read_clusters[0][cells]
        moved = ~same_column(last, access) | (last_clusters != clusters)
        moved &= last > 0
        self.reads[0][cells], self.read_clusters[0][cells] = access, clusters
        shared = self.reads[0][cells] != access  # with a lane that comes later in this instruction
        for which, reads, readers in ((moved, last, last_clusters), (shared, access, clusters)):
            if which.any():
                places = cells[which]
                self.reads[1][places] = np.broadcast_to(reads, cells.shape)[which]
                self.read_clusters[1][places] = np.broadcast_to(readers, cells.shape)[which]

    def write(self, cells: Indices, access: Array, clusters: Array, narrow: bool) -> None:
        """Record that threads write cells, (lanes, cells of one); access and clusters are (lanes, 1)."""
        self.writes[cells], self.write_clusters[cells] = access, clusters
        if narrow:
            if self.narrow is None:
                self.narrow = np.zeros_like(self.writes), np.zeros_like(self.write_clusters)
            self.narrow[0][cells], self.narrow[1][cells] = access, clusters

    def past_writes(self) -> list[tuple[Array, Array]]:
        """Writes that an access must be ordered after, and their clusters, by cell."""
        return [(self.writes, self.write_clusters), *([] if self.narrow is None else [self.narrow])]

    def expect_writes(self) -> None:
        """Prepare for writes: from now on all reads must be recorded."""
        self.written = True
        for note in self.deferred:
            note()
        self.deferred.clear()

    def cells_of_rows(self, starts: Indices, nbytes: int) -> Indices:
        """The cells of rows of `nbytes` bytes at offsets of the whole memory, all in one array."""
        first, last = (starts - self.start) // self.cell, (starts + nbytes - 1 - self.start) // self.cell
        cells = first[:, None] + np.arange(int((last - first).max()) + 1)
        return cells[cells <= last[:, None]]

    def cells(self, where: Indices, width: int) -> Indices:
        """The cells of accesses at offsets of the whole memory: (lanes, cells of one)."""
        count = max(width // self.cell, 1)
        first = (np.asarray(where) - self.start) // self.cell
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)
