"""TMA tiles: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor between a global tensor and shared memory.

Only tiled mode without interleave and with unit element strides, which is what a GEMM uses. Moving the
bytes is all that happens here: when a copy completes, and what it signals, is the scheduler's business.

Source: PTX ISA, "Tensors" and "cp.async.bulk.tensor"; CUDA driver API, cuTensorMapEncodeTiled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.emulator.swizzle import CHUNK, SWIZZLE_PERIOD, SWIZZLE_SPANS, swizzle

Bytes = npt.NDArray[np.uint8]

BOX_ALIGNMENT = 16
"""Bytes of which the place of a box in its row is a multiple (seen on an H200, of loads and stores)."""
TILE_ALIGNMENT = 128
"""Bytes to which the shared-memory address of a tile must be aligned."""

REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""The `.redOp` of cp.reduce.async.bulk.tensor; `.inc` and `.dec` are left out."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box of it that one TMA instruction moves.

    Dimensions run from the innermost, which is contiguous, to the outermost.

    address: of the first element. element_bytes: 1, 2, 4 or 8. shape: elements per dimension. strides: bytes
    from one index to the next in dimensions 1 and up (so one fewer than the rank). box: elements per
    dimension. swizzle: span in bytes, one of SWIZZLE_SPANS.

    Raises ValueError where cuTensorMapEncodeTiled would refuse.
    """

    address: int
    element_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    def __post_init__(self) -> None:
        rank = len(self.shape)
        _require(1 <= rank <= 5, "shape", self.shape, "must have 1 to 5 dimensions")
        _require(len(self.box) == rank, "box", self.box, f"must have as many dimensions as shape, {rank}")
        _require(
            len(self.strides) == rank - 1,
            "strides",
            self.strides,
            f"must have one entry for each dimension but the innermost, {rank - 1}",
        )
        sizes = (1, 2, 4, 8)
        _require(self.element_bytes in sizes, "element_bytes", self.element_bytes, f"must be one of {sizes}")
        _require(
            self.address > 0 and self.address % 16 == 0,
            "address",
            self.address,
            "must be positive and 16-byte aligned",
        )
        for d, extent_ in enumerate(self.shape):
            _require(1 <= extent_ <= 1 << 32, f"shape[{d}]", extent_, "must be in 1..2**32")
        for d, stride in enumerate(self.strides):
            _require(
                0 <= stride < 1 << 40 and stride % 16 == 0,
                f"strides[{d}]",
                stride,
                "must be a multiple of 16 bytes below 2**40: pad the leading dimension",
            )
        for d, side in enumerate(self.box):
            _require(1 <= side <= 256, f"box[{d}]", side, "must be in 1..256")
        row = self.box[0] * self.element_bytes
        _require(row % 16 == 0, "box[0]", self.box[0], f"must span a multiple of 16 bytes, not {row}")
        _require(self.swizzle in SWIZZLE_SPANS, "swizzle", self.swizzle, f"must be one of {SWIZZLE_SPANS}")
        _require(
            self.swizzle == 0 or row <= self.swizzle,
            "box[0]",
            self.box[0],
            f"spans {row} bytes and must span at most the swizzle's {self.swizzle}: load several boxes",
        )

    @property
    def tile_bytes(self) -> int:
        """Bytes of the whole box, in or out of bounds: what a load adds to complete_tx."""
        return prod(self.box) * self.element_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes from the first to behind the last row of the tile in shared memory.

        A row narrower than the swizzle's span is followed by a gap up to the span (seen on an H200).
        """
        return prod(self.box[1:]) * max(self.box[0] * self.element_bytes, self.swizzle)

    @property
    def as_stored(self) -> "TensorMap":
        """The tensor that stores are clipped to: rows end with a whole piece of 16 bytes.

        Observed on an H200; the manual does not say it. A row that is no multiple of 16 bytes is followed by what the
        tile holds there.
        """
        per_piece = 16 // self.element_bytes
        return replace(self, shape=(-(-self.shape[0] // per_piece) * per_piece, *self.shape[1:]))


def extent(tensor_map: TensorMap, coordinates: Sequence[int]) -> tuple[int, int] | None:
    """Global addresses of the first and of the last byte that the box at `coordinates` touches.

    None where the box lies wholly outside the tensor. The bytes between rows are not touched.
    """
    window = _window(tensor_map, coordinates)
    return None if window is None else (window.first, window.last)


def load_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared: Bytes,
    destination: int,
    shared_address: int,
) -> int:
    """Copy the box at `coordinates` (innermost first) to shared memory, elements out of bounds as zeros.

    arena: flat global memory, whose first byte has the address arena_base. shared: flat, its size a multiple
    of 16 bytes. destination: offset in `shared` of the tile. shared_address: the same place as its CTA
    addresses it, which is what the swizzle acts on.

    Returns the bytes of the whole box. Raises ValueError for a misaligned tile, a box that leaves the arena
    and a tile that leaves `shared`.
    """
    window = _window(tensor_map, coordinates)
    in_bounds = None if window is None else _view(arena, arena_base, window)
    if window is None or in_bounds is None:
        tile = np.zeros(_tile_shape(tensor_map), np.uint8)
    elif window.shape == _tile_shape(tensor_map):
        tile = in_bounds
    else:
        tile = np.zeros(_tile_shape(tensor_map), np.uint8)
        tile[window.slices] = in_bounds
    where = _chunk_indices(tensor_map, shared, destination, shared_address)
    shared.view(CHUNK)[where] = tile.view(CHUNK)
    return tensor_map.tile_bytes


def extents(
    tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """`extent` of many boxes at once: coordinates (boxes, rank), innermost first.

    Returns the first and last addresses, (boxes,), and whether each box touches the tensor at all.
    """
    low, high = _clipped(tensor_map, coordinates)
    pitches = np.array((tensor_map.element_bytes, *tensor_map.strides))
    first = tensor_map.address + ((coordinates + low) * pitches).sum(axis=1)
    last = tensor_map.address + ((coordinates + high - 1) * pitches).sum(axis=1) + tensor_map.element_bytes - 1
    return first, last, np.all(low < high, axis=1)


def bytes_in_bounds(tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]) -> int:
    """How many bytes the boxes at coordinates (boxes, rank) have inside the tensor, all together."""
    low, high = _clipped(tensor_map, coordinates)
    return int(np.maximum(high - low, 0).prod(axis=1).sum()) * tensor_map.element_bytes


def load_tiles(
    arena: Bytes,
    arena_base: int,
    tensor_map: TensorMap,
    coordinates: npt.NDArray[np.int64],
    shared: Bytes,
    destinations: npt.NDArray[np.int64],
    shared_addresses: npt.NDArray[np.int64],
) -> None:
    """`load_tile` of many boxes at once, each to one or more places.

    coordinates: (boxes, rank). destinations: (boxes, places), offsets in `shared`. shared_addresses: (boxes,), the same
    for all places of a box. The bounds must have been checked.
    """
    low, high = _clipped(tensor_map, coordinates)
    whole = (high - low == tensor_map.box).all(axis=1)
    first, _, _ = extents(tensor_map, coordinates)
    phases = shared_addresses % SWIZZLE_PERIOD
    if not whole.all() or (first % 16).any() or (phases != phases[0]).any():
        for box, places, address in zip(coordinates.tolist(), destinations.tolist(), shared_addresses, strict=True):
            for place in places:
                load_tile(arena, arena_base, tensor_map, box, shared, place, int(address))
        return
    source = (first - arena_base)[:, None] // 16 + _box_chunks(tensor_map)
    tiles = arena[: arena.size // 16 * 16].view(CHUNK).take(source)
    pattern = _tile_pattern(_tile_shape(tensor_map), tensor_map.swizzle, int(phases[0])).chunks.reshape(-1)
    for places in destinations.T:
        shared.view(CHUNK)[places[:, None] // 16 + pattern] = tiles


def store_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared: Bytes,
    source: int,
    shared_address: int,
) -> int:
    """Copy a tile of shared memory to the box at `coordinates`, without its elements out of bounds (`as_stored`).

    Returns the bytes written. Arguments and errors as for load_tile, with `source` for `destination`.
    """
    tile = _read_tile(tensor_map, shared, source, shared_address)
    window = _window(tensor_map.as_stored, coordinates)
    if window is None:
        return 0
    _view(arena, arena_base, window)[...] = tile[window.slices]
    return prod(window.shape)


def reduce_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared: Bytes,
    source: int,
    shared_address: int,
    operation: str,
    element_type: npt.DTypeLike,
) -> int:
    """Combine a tile of shared memory into the box at `coordinates`, without its elements out of bounds.

    operation: a key of REDUCTIONS. element_type: the tensor's, of element_bytes bytes, for instance
    np.float32, np.uint32 or ml_dtypes.bfloat16. Other arguments, result and errors as for store_tile.
    """
    dtype = np.dtype(element_type)
    _require(
        dtype.itemsize == tensor_map.element_bytes,
        "element_type",
        dtype,
        f"must have the tensor map's {tensor_map.element_bytes} bytes per element",
    )
    _require(operation in REDUCTIONS, "operation", operation, f"must be one of {', '.join(REDUCTIONS)}")
    tile = _read_tile(tensor_map, shared, source, shared_address)
    window = _window(tensor_map, coordinates)
    if window is None:
        return 0
    elements = _view(arena, arena_base, window).view(dtype)
    elements[...] = REDUCTIONS[operation](elements, tile[window.slices].view(dtype))
    return prod(window.shape)


def _clipped(
    tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The part of each box that lies inside the tensor, as bounds within the box: (boxes, rank) each."""
    low = np.maximum(-coordinates, 0)
    high = np.minimum(np.array(tensor_map.box), np.array(tensor_map.shape) - coordinates)
    return low, high


@lru_cache(maxsize=256)
def _box_chunks(tensor_map: TensorMap) -> npt.NDArray[np.int64]:
    """Offsets of the 16-byte chunks of a box in global memory from its first, in chunks, innermost fastest."""
    chunks = np.arange(tensor_map.box[0] * tensor_map.element_bytes // 16)
    for side, stride in zip(tensor_map.box[1:], tensor_map.strides, strict=True):
        chunks = (np.arange(side)[:, None] * (stride // 16) + chunks).reshape(-1)
    chunks.flags.writeable = False
    return chunks


class _Window(NamedTuple):
    """The part of a box that lies inside the tensor: always a box itself, as bounds hold per dimension.

    slices: its place in the tile. shape, strides: of its view in global memory, in bytes, outermost first.
    first, last: global addresses of its first and last byte.
    """

    slices: tuple[slice, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int
    last: int


def _window(tensor_map: TensorMap, coordinates: Sequence[int]) -> _Window | None:
    """The in-bounds part of the box at `coordinates`; None where it is empty."""
    _require(
        len(coordinates) == len(tensor_map.box),
        "coordinates",
        tuple(coordinates),
        f"must have one entry for each of the tensor's {len(tensor_map.box)} dimensions",
    )
    pitches = (tensor_map.element_bytes, *tensor_map.strides)
    first = last = tensor_map.address
    slices, shape = [], []
    for start, side, extent_, pitch in zip(coordinates, tensor_map.box, tensor_map.shape, pitches, strict=True):
        low, high = max(0, -start), min(side, extent_ - start)
        if low >= high:
            return None
        first += (start + low) * pitch
        last += (start + high - 1) * pitch
        slices.append(slice(low, high))
        shape.append(high - low)
    size = tensor_map.element_bytes
    slices[0] = slice(slices[0].start * size, slices[0].stop * size)
    shape[0] *= size
    strides = (*reversed(tensor_map.strides), 1)
    return _Window(tuple(reversed(slices)), tuple(reversed(shape)), strides, first, last + size - 1)


def _view(arena: Bytes, arena_base: int, window: _Window) -> Bytes:
    """The bytes of `window` in the arena, innermost dimension last."""
    if window.first < arena_base or window.last >= arena_base + arena.size:
        raise ValueError(
            f"the box touches global addresses {window.first:#x} to {window.last:#x} and must lie within "
            f"{arena_base:#x} to {arena_base + arena.size - 1:#x}: "
            "make the tensor map's shape fit its allocation"
        )
    return np.ndarray(window.shape, np.uint8, arena, window.first - arena_base, window.strides)


def _tile_shape(tensor_map: TensorMap) -> tuple[int, ...]:
    """The whole box in bytes, outermost dimension first."""
    return (*reversed(tensor_map.box[1:]), tensor_map.box[0] * tensor_map.element_bytes)


def _read_tile(tensor_map: TensorMap, shared: Bytes, source: int, shared_address: int) -> Bytes:
    """A copy of the tile in shared memory as bytes, swizzle undone, outermost dimension first."""
    where = _chunk_indices(tensor_map, shared, source, shared_address)
    return shared.view(CHUNK)[where].view(np.uint8)


def _chunk_indices(tensor_map: TensorMap, shared: Bytes, offset: int, shared_address: int) -> npt.NDArray[np.int64]:
    """Index in `shared`, in 16-byte chunks, of each chunk of the tile: shape (..., row chunks)."""
    _require(
        shared_address % TILE_ALIGNMENT == 0 and offset % 16 == 0,
        "shared address of the tile",
        shared_address,
        f"must be {TILE_ALIGNMENT}-byte aligned",
    )
    pattern = _tile_pattern(_tile_shape(tensor_map), tensor_map.swizzle, shared_address % SWIZZLE_PERIOD)
    _require(
        pattern.lowest <= offset and offset + pattern.highest < shared.size,
        "offset of the tile",
        offset,
        f"must leave room for {tensor_map.shared_bytes} bytes in shared memory of {shared.size} bytes",
    )
    return pattern.chunks + offset // 16


def tile_chunks(tensor_map: TensorMap, shared_address: int) -> npt.NDArray[np.int64]:
    """The 16-byte chunks of shared memory, numbered from address 0, that hold the tile at an address."""
    pattern = _tile_pattern(_tile_shape(tensor_map), tensor_map.swizzle, shared_address % SWIZZLE_PERIOD)
    return pattern.chunks.reshape(-1) + shared_address // 16


class _TilePattern(NamedTuple):
    """Chunk offsets of a tile from its start, and its lowest and highest byte offset."""

    chunks: npt.NDArray[np.int64]
    lowest: int
    highest: int


@lru_cache(maxsize=256)
def _tile_pattern(tile_shape: tuple[int, ...], span: int, phase: int) -> _TilePattern:
    """Where the 16-byte chunks of a tile lie that starts at `phase` in the swizzle's period."""
    rows, row_bytes = prod(tile_shape[:-1]), tile_shape[-1]
    linear = phase + max(row_bytes, span) * np.arange(rows)[:, None] + np.arange(0, row_bytes, 16)
    chunks = (swizzle(linear, span) - phase) // 16
    chunks.flags.writeable = False
    return _TilePattern(chunks.reshape(*tile_shape[:-1], -1), 16 * int(chunks.min()), 16 * int(chunks.max()) + 15)


def _require(condition: bool, name: str, value: object, rule: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value} and {rule}")
