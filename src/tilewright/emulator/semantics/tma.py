"""TMA tiles: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor between a global tensor and shared memory.

Only tiled mode without interleave. Moving the bytes is all that happens here: when a copy completes, and what it
signals, is the scheduler's business.

Source: PTX ISA, "Tensors" and "cp.async.bulk.tensor"; CUDA driver API, cuTensorMapEncodeTiled.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.emulator.memory import Bytes
from tilewright.emulator.semantics.reductions import reduce_into
from tilewright.emulator.semantics.sectors import whole_sectors
from tilewright.emulator.semantics.swizzle import CHUNK, SWIZZLE_PERIOD
from tilewright.emulator.semantics.tensor_map import TensorMap, require
from tilewright.emulator.semantics.tiles import (
    Rows,
    as_loaded,
    chunk_indices,
    filled,
    tile_pattern,
    tile_shape,
)
from tilewright.rounding import ceil_div

BOX_ALIGNMENT = 16
"""The alignment of a box's place in its row, in bytes (seen on an H200, for loads and stores)."""


def extent(tensor_map: TensorMap, coordinates: Sequence[int]) -> tuple[int, int] | None:
    """Global addresses of the first and of the last byte that the box at `coordinates` touches.

    None where the box lies wholly outside the tensor. The bytes between rows are not touched.
    """
    window = _window(tensor_map, coordinates)
    return None if window is None else (window.first, window.last)


def rows_in_bounds(tensor_map: TensorMap, coordinates: Sequence[int]) -> Rows | None:
    """The global memory that the box at `coordinates` touches; None if it lies wholly outside the tensor."""
    window = _window(tensor_map, coordinates)
    if window is None:
        return None
    starts = np.array([window.first])
    for count, stride in zip(window.shape[:-1], window.strides[:-1], strict=True):
        starts = (starts[:, None] + stride * np.arange(count)).reshape(-1)
    return Rows(starts, window.shape[-1])


def load_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    shared: Bytes,
    destination: int,
    shared_address: int,
) -> int:
    """Copy the box at `coordinates` (innermost first) to shared memory, elements out of bounds as its map says.

    arena: flat global memory, whose first byte has the address arena_base.
    shared: flat, its size a multiple of 16 bytes.
    destination: offset in `shared` of the tile.
    shared_address: the same place as its CTA addresses it, which is what the swizzle acts on.

    Returns the bytes of the whole box. Raises ValueError for a misaligned tile, a box that leaves the arena
    and a tile that leaves `shared`.
    """
    window = _window(tensor_map, coordinates)
    tile = filled(tensor_map)
    if window is not None:
        tile[window.slices] = as_loaded(tensor_map, _view(arena, arena_base, window))
    where = chunk_indices(tensor_map, shared, destination, shared_address)
    shared.view(CHUNK)[where] = tile.view(CHUNK)
    return tensor_map.tile_bytes


def extents(
    tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """`extent` of many boxes at once: coordinates (boxes, rank), innermost first.

    Returns the first and last addresses, (boxes,), and whether each box touches the tensor at all.
    """
    low, high = _clipped(tensor_map, coordinates)
    pitches, steps = np.array((tensor_map.element_bytes, *tensor_map.strides)), np.array(tensor_map.steps)
    first = tensor_map.address + ((coordinates + low * steps) * pitches).sum(axis=1)
    last = tensor_map.address + ((coordinates + (high - 1) * steps) * pitches).sum(axis=1)
    last += tensor_map.element_bytes - 1
    return first, last, np.all(low < high, axis=1)


def bytes_read(tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]) -> int:
    """The bytes that loads of the boxes at coordinates (boxes, rank) bring from L2, in total.

    They are whole sectors, row by row: those that the row touches inside the tensor, and as many as its other bytes
    fill. An H200 also moves the part that is out of bounds.
    """
    low, high = _clipped(tensor_map, coordinates)
    rows, offsets = _box_rows(tensor_map)
    inside = ((low[:, None, 1:] <= rows) & (rows < high[:, None, 1:])).all(axis=2)
    nbytes = np.where(inside, np.maximum(high - low, 0)[:, :1], 0) * tensor_map.element_bytes
    pitches = np.array((tensor_map.element_bytes, *tensor_map.strides))
    starts = tensor_map.address + coordinates @ pitches + low[:, 0] * tensor_map.element_bytes
    outside = tensor_map.tile[0] * tensor_map.element_bytes - nbytes
    return whole_sectors(starts[:, None] + offsets, nbytes) + whole_sectors(np.array(0), outside)


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

    coordinates: (boxes, rank).
    destinations: (boxes, places), offsets in `shared`.
    shared_addresses: (boxes,), the same for all places of a box. The bounds must have been checked.
    """
    low, high = _clipped(tensor_map, coordinates)
    whole = (high - low == tensor_map.tile).all(axis=1)
    first, _, _ = extents(tensor_map, coordinates)
    phases = shared_addresses % SWIZZLE_PERIOD
    if not whole.all() or (first % 16).any() or (phases != phases[0]).any():
        for box, places, address in zip(coordinates.tolist(), destinations.tolist(), shared_addresses, strict=True):
            for place in places:
                load_tile(arena, arena_base, tensor_map, box, shared, place, int(address))
        return
    source = (first - arena_base)[:, None] // 16 + _box_chunks(tensor_map)
    tiles = as_loaded(tensor_map, arena[: arena.size // 16 * 16].view(CHUNK).take(source).view(np.uint8)).view(CHUNK)
    pattern = tile_pattern(tile_shape(tensor_map), tensor_map.swizzle, int(phases[0])).chunks.reshape(-1)
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
    operation: str | None = None,
) -> int:
    """Copy a tile of shared memory to the box at `coordinates`, or combine it with the box.

    Elements out of bounds stay (`as_stored`). operation: the .redOp, which the tensor's element type must have; None
    for a copy. Returns the bytes written. Other arguments and errors as for load_tile, with `source` for `destination`.
    """
    where = chunk_indices(tensor_map, shared, source, shared_address)
    tile = shared.view(CHUNK)[where].view(np.uint8)
    window = _window(tensor_map.as_stored, coordinates)
    if window is None:
        return 0
    elements = _view(arena, arena_base, window)
    if operation is None:
        elements[...] = tile[window.slices]
    else:
        reduce_into(elements, tile[window.slices], operation, tensor_map.element_type)
    return prod(window.shape)


def _clipped(
    tensor_map: TensorMap, coordinates: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The part of each box that lies inside the tensor, as bounds within the tile: (boxes, rank) each."""
    steps = np.array(tensor_map.steps)
    low = np.maximum(-(coordinates // steps), 0)
    high = np.minimum(np.array(tensor_map.tile), -((coordinates - np.array(tensor_map.shape)) // steps))
    return low, high


@lru_cache(maxsize=256)
def _box_rows(tensor_map: TensorMap) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of a box's rows in it, (rows, rank - 1), and their offsets in global memory in bytes."""
    outer = tensor_map.tile[1:]
    rows = np.indices((1, *outer))[1:].reshape(len(outer), prod(outer)).T
    return rows, rows @ (np.array(tensor_map.steps[1:], np.int64) * np.array(tensor_map.strides, np.int64))


@lru_cache(maxsize=256)
def _box_chunks(tensor_map: TensorMap) -> npt.NDArray[np.int64]:
    """Offsets of the 16-byte chunks of a box in global memory from its first, in chunks, innermost fastest."""
    chunks = np.arange(tensor_map.box[0] * tensor_map.element_bytes // 16)
    for side, step, stride in zip(tensor_map.tile[1:], tensor_map.steps[1:], tensor_map.strides, strict=True):
        chunks = (np.arange(side)[:, None] * (step * stride // 16) + chunks).reshape(-1)
    chunks.flags.writeable = False
    return chunks


class _Window(NamedTuple):
    """The part of a box that lies inside the tensor: always a box itself, as bounds hold per dimension.

    slices: its place in the tile.
    shape, strides: those of its view in global memory, in bytes, outermost first.
    first, last: global addresses of its first and last byte.
    """

    slices: tuple[slice, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int
    last: int


def _window(tensor_map: TensorMap, coordinates: Sequence[int]) -> _Window | None:
    """The in-bounds part of the box at `coordinates`; None where it is empty."""
    require(
        len(coordinates) == len(tensor_map.box),
        "coordinates",
        tuple(coordinates),
        f"must have one entry for each of the tensor's {len(tensor_map.box)} dimensions",
    )
    size, steps = tensor_map.element_bytes, tensor_map.steps
    pitches = [step * pitch for step, pitch in zip(steps, (size, *tensor_map.strides), strict=True)]
    first = last = tensor_map.address
    slices, shape = [], []
    for axis, (start, step, pitch) in enumerate(zip(coordinates, steps, pitches, strict=True)):
        low = max(0, -(start // step))
        high = min(tensor_map.tile[axis], -((start - tensor_map.shape[axis]) // step))
        if low >= high:
            return None
        origin = start * (pitch // step)
        first += origin + low * pitch
        last += origin + (high - 1) * pitch
        slices.append(slice(low, high))
        shape.append(high - low)
    slices[0] = slice(slices[0].start * size, slices[0].stop * size)
    shape[0] *= size
    strides = (*reversed(pitches[1:]), 1)
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


def chunks_in_bounds(tensor_map: TensorMap, coordinates: Sequence[int]) -> npt.NDArray[np.bool_] | None:
    """Which of `tile_chunks` hold a part of the box at `coordinates` inside the tensor; None for all."""
    window, (*outer, row) = _window(tensor_map, coordinates), tile_shape(tensor_map)
    if window is not None and window.shape == (*outer, row):
        return None
    inside = np.zeros((*outer, row // 16), np.bool_)
    if window is not None:
        *sides, within = window.slices
        inside[(*sides, slice(within.start // 16, ceil_div(within.stop, 16)))] = True
    return inside.reshape(-1)
