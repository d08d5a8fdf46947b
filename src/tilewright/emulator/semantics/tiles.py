"""Tiles in shared memory: where TMA puts what it loads, and takes what it stores, whatever lies in global memory.

Source: PTX ISA, "Tensors" and "cp.async.bulk.tensor".
"""

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.emulator.memory import Bytes
from tilewright.emulator.semantics.conversions import TF32_BITS, float_to_tf32
from tilewright.emulator.semantics.swizzle import SWIZZLE_PERIOD, swizzle
from tilewright.emulator.semantics.tensor_map import AnyMap, require

TILE_ALIGNMENT = 128
"""Bytes to which the shared-memory address of a tile must be aligned."""
OOB_NAN = 0x7FF7
"""The NaN out of bounds, in every half word of an element whatever its type.

The manual names it and does not give its bits; these are an H200's, and what fma.oob looks for.
"""


class Rows(NamedTuple):
    """Ranges of global memory: the same number of bytes at each of some addresses."""

    starts: npt.NDArray[np.int64]
    nbytes: int


def tile_shape(tensor_map: AnyMap) -> tuple[int, ...]:
    """The whole tile in bytes, outermost dimension first."""
    return (*reversed(tensor_map.tile[1:]), tensor_map.tile[0] * tensor_map.element_bytes)


def as_loaded(tensor_map: AnyMap, read: Bytes) -> Bytes:
    """The bytes of a load after conversion: tf32 is rounded to nearest, ties to even; other types are copied.

    This was observed on an H200, where any NaN becomes 0x7fffe000; stores copy tf32 as it is.
    """
    if tensor_map.element_type != "tf32":
        return read
    rounded = float_to_tf32(np.ascontiguousarray(read).view(np.float32), "rn").view(np.uint32)
    return np.asarray(rounded & TF32_BITS).view(np.uint8)


def filled(tensor_map: AnyMap) -> Bytes:
    """A tile of the bytes that a load puts out of bounds."""
    *outer, row = tile_shape(tensor_map)
    return np.full((*outer, row // 2), OOB_NAN if tensor_map.oob_nan else 0, np.uint16).view(np.uint8)


def chunk_indices(tensor_map: AnyMap, shared: Bytes, offset: int, shared_address: int) -> npt.NDArray[np.int64]:
    """Index in `shared`, in 16-byte chunks, of each chunk of the tile: shape (..., row chunks)."""
    require(
        shared_address % TILE_ALIGNMENT == 0 and offset % 16 == 0,
        "shared address of the tile",
        shared_address,
        f"must be {TILE_ALIGNMENT}-byte aligned",
    )
    pattern = tile_pattern(tile_shape(tensor_map), tensor_map.swizzle, shared_address % SWIZZLE_PERIOD)
    require(
        pattern.lowest <= offset and offset + pattern.highest < shared.size,
        "offset of the tile",
        offset,
        f"must leave room for {tensor_map.shared_bytes} bytes in shared memory of {shared.size} bytes",
    )
    return pattern.chunks + offset // 16


def tile_chunks(tensor_map: AnyMap, shared_address: int) -> npt.NDArray[np.int64]:
    """The 16-byte chunks of shared memory, numbered from address 0, that hold the tile at an address."""
    pattern = tile_pattern(tile_shape(tensor_map), tensor_map.swizzle, shared_address % SWIZZLE_PERIOD)
    return pattern.chunks.reshape(-1) + shared_address // 16


class TilePattern(NamedTuple):
    """Chunk offsets of a tile from its start, and its lowest and highest byte offset."""

    chunks: npt.NDArray[np.int64]
    lowest: int
    highest: int


@lru_cache(maxsize=256)
def tile_pattern(tile_shape: tuple[int, ...], span: int, phase: int) -> TilePattern:
    """The places of the 16-byte chunks of a tile that starts at `phase` in the swizzle's period."""
    rows, row_bytes = prod(tile_shape[:-1]), tile_shape[-1]
    linear = phase + max(row_bytes, span) * np.arange(rows)[:, None] + np.arange(0, row_bytes, 16)
    chunks = (swizzle(linear, span) - phase) // 16
    chunks.flags.writeable = False
    return TilePattern(chunks.reshape(*tile_shape[:-1], -1), 16 * int(chunks.min()), 16 * int(chunks.max()) + 15)
