"""Lanes: which threads run together, and how their registers form warps.

The threads of all resident CTAs form one axis of lanes: lane = thread * ctas + cta. So a role that a kernel gives to
some warps of every CTA is a slice of that axis, and its registers are views.
"""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Indices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Active: TypeAlias = "Mask | np.bool_ | None"
"""The lanes where a guard holds: None for all, one truth value for all, or one for each lane of a group."""
Extent: TypeAlias = tuple[int, int, int]
"""The numbers along x, y and z: CTAs of a grid or cluster, threads of a block."""

WARP = 32
WARPGROUP = 128
FULL_WARP = 0xFFFFFFFF
"""The member mask of all lanes."""


class Topology:
    """The resident CTAs of one launch and their threads.

    cta: (lanes,), the slot of the CTA among the resident ones.
    thread: (lanes,), the thread's linear index in its CTA.
    """

    def __init__(self, ctas: int, threads: int, cluster_size: int, shared_stride: int) -> None:
        self.ctas, self.threads, self.cluster_size = ctas, threads, cluster_size
        self.lanes = ctas * threads
        self.cta = np.tile(np.arange(ctas), threads)
        self.thread = np.repeat(np.arange(threads), ctas)
        self.shared_stride = shared_stride
        self.shared_base = self.cta * shared_stride
        self._slices: dict[tuple[int, int], Group] = {}

    def group(self, lanes: slice | Indices) -> "Group":
        """The group of these lanes (sorted, without repetition)."""
        if isinstance(lanes, np.ndarray):
            if not lanes.size or lanes[-1] - lanes[0] + 1 != lanes.size:
                return Group(self, lanes)
            lanes = slice(int(lanes[0]), int(lanes[-1]) + 1)
        key = (lanes.start, lanes.stop)
        if key not in self._slices:
            self._slices[key] = Group(self, lanes)
        return self._slices[key]

    def merge(self, groups: "list[Group]") -> "Group":
        """One group of the lanes of several disjoint ones."""
        if len(groups) == 1:
            return groups[0]
        return self.group(np.sort(np.concatenate([group.indices for group in groups])))


class Group:
    """Lanes that execute together, as a slice or as sorted indices; derived values are computed once."""

    def __init__(self, topology: Topology, lanes: slice | Indices) -> None:
        self.topology, self.lanes = topology, lanes
        self.size: int = lanes.stop - lanes.start if isinstance(lanes, slice) else lanes.size

    @cached_property
    def indices(self) -> Indices:
        """The lanes as an index array."""
        return np.arange(self.lanes.start, self.lanes.stop) if isinstance(self.lanes, slice) else self.lanes

    @cached_property
    def cta(self) -> Indices:
        """CTA slot of each lane."""
        return self.topology.cta[self.lanes]

    @cached_property
    def thread(self) -> Indices:
        """Thread index of each lane."""
        return self.topology.thread[self.lanes]

    @cached_property
    def shared_base(self) -> Indices:
        """Offset in flat shared memory of each lane's CTA."""
        return self.topology.shared_base[self.lanes]

    @cached_property
    def warps(self) -> "Tiles":
        """The lanes arranged in warps."""
        return Tiles(self, WARP)

    @cached_property
    def warpgroups(self) -> "Tiles":
        """The lanes arranged in warpgroups."""
        return Tiles(self, WARPGROUP)

    def take(self, mask: Mask) -> "Group":
        """The lanes where the mask, one entry per lane of this group, holds."""
        chosen = np.flatnonzero(mask)
        if isinstance(self.lanes, slice):
            return self.topology.group(chosen + self.lanes.start)
        return self.topology.group(self.lanes[chosen])

    def active(self, active: Active) -> "Group":
        """The lanes where a guard holds."""
        return self if active is None else self.take(np.broadcast_to(active, (self.size,)))

    def __str__(self) -> str:
        return in_words(self.cta, self.thread)


class Tiles:
    """A group arranged as (tiles, width, C): tiles of `width` consecutive threads in each of C CTAs.

    A group that is {whole tiles} x {CTAs} only changes shape. Any other group is spread over all tiles that it touches,
    with C = 1; `present` then tells which places hold a lane. count: tiles times C.
    """

    def __init__(self, group: Group, width: int) -> None:
        self.width, self.size = width, group.size
        ctas = self._ctas_of_product(group)
        self.present: Mask | None = None
        self._place: Indices | None = None
        if ctas:
            self.shape = (group.size // (width * ctas), width, ctas)
        else:
            tile = group.thread // width * group.topology.ctas + group.cta
            tiles, inverse = np.unique(tile, return_inverse=True)
            self._place = inverse.reshape(-1) * width + group.thread % width
            self.shape = (tiles.size, width, 1)
            present = np.zeros(tiles.size * width, np.bool_)
            present[self._place] = True
            if not present.all():
                self.present = present.reshape(self.shape)
        self.count = self.shape[0] * self.shape[2]

    @property
    def complete(self) -> bool:
        """Whether every tile has all its lanes."""
        return self.present is None

    @property
    def is_reshape(self) -> bool:
        """Whether the group is {whole tiles} x {CTAs}."""
        return self._place is None

    def _ctas_of_product(self, group: Group) -> int:
        """C if the group is {whole tiles} x {C CTAs}, else 0."""
        stride = self.width * group.topology.ctas
        if isinstance(group.lanes, slice):
            aligned = group.lanes.start % stride == 0 and group.size % stride == 0
            return group.topology.ctas if aligned else 0
        ctas = int(np.searchsorted(group.thread, group.thread[0], "right"))
        if group.size % (self.width * ctas):
            return 0
        cta = group.cta.reshape(-1, ctas)
        thread = group.thread.reshape(-1, self.width, ctas)
        in_order = (thread % self.width == np.arange(self.width)[:, None]).all()
        same_tile = (thread // self.width == thread[:, :1, :1] // self.width).all()
        return ctas if in_order and same_tile and (cta == cta[0]).all() else 0

    def spread(self, values: Array) -> Array:
        """(lanes,) or one value for all -> (tiles, width, C), zero where no lane is present."""
        if self._place is None:
            return lanes_of(values, self.size).reshape(self.shape)
        spread = np.zeros(self.shape[0] * self.width, np.asarray(values).dtype)
        spread[self._place] = values
        return spread.reshape(self.shape)

    def collect(self, tiles: Array) -> Array:
        """The inverse of spread: (tiles, width, C) -> (lanes,)."""
        flat = tiles.reshape(-1)
        return flat if self._place is None else flat[self._place]


def in_words(ctas: Indices, threads: Indices) -> str:
    """Threads of CTAs in words, by warps where these are whole."""
    warps, threads = np.unique(threads // WARP), np.unique(threads)
    whole = threads.size == warps.size * WARP
    return f"{counted('CTA', np.unique(ctas))}, {counted('warp', warps) if whole else counted('thread', threads)}"


def counted(noun: str, numbers: Indices) -> str:
    """Sorted numbers of things in words: thread 7, threads 0-3, 7."""
    return f"{noun}{'s' * (numbers.size != 1)} {ranges(numbers)}"


def ranges(values: npt.NDArray[np.int64]) -> str:
    """Sorted integers in words: 0-3, 7."""
    if not values.size:
        return "none"
    edges = np.flatnonzero(np.diff(values) != 1) + 1
    runs = np.split(values, edges)
    return ", ".join(f"{run[0]}" if run.size == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def lanes_of(value: Any, size: int) -> Array:
    """A value per lane, to be read only."""
    if isinstance(value, np.ndarray) and value.shape == (size,):
        return value  # the usual case, on which broadcast_to would spend microseconds
    return np.broadcast_to(value, (size,))


def lane_values(value: Any, size: int, chosen: Indices | None) -> Array:
    """A value for each of the chosen lanes, or for all of them."""
    lanes = lanes_of(value, size)
    return lanes if chosen is None else lanes[chosen]
