"""What TMA moves of a tensor, by the mode of its map: boxes in tiled mode, columns of pixels in im2col mode.

A box is named by its coordinates, a column by these and its offsets.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.memory import Bytes
from tilewright.emulator.semantics import im2col, tma
from tilewright.emulator.semantics.tensor_map import AnyMap, Im2colMap
from tilewright.emulator.semantics.tiles import Rows


def extents(
    tensor_map: AnyMap, boxes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Global addresses of the first and last bytes of boxes, and whether each touches the tensor at all."""
    if isinstance(tensor_map, Im2colMap):
        return im2col.extents(tensor_map, boxes)
    return tma.extents(tensor_map, boxes)


def rows_in_bounds(tensor_map: AnyMap, box: Sequence[int]) -> Rows | None:
    """The global memory that a box touches; None if it lies wholly outside the tensor."""
    if isinstance(tensor_map, Im2colMap):
        return im2col.rows_in_bounds(tensor_map, box)
    return tma.rows_in_bounds(tensor_map, box)


def bytes_read(tensor_map: AnyMap, boxes: npt.NDArray[np.int64]) -> int:
    """The bytes that loads of boxes bring from L2, in total."""
    if isinstance(tensor_map, Im2colMap):
        return im2col.bytes_read(tensor_map, boxes)
    return tma.bytes_read(tensor_map, boxes)


def load_tiles(
    arena: Bytes,
    arena_base: int,
    tensor_map: AnyMap,
    boxes: npt.NDArray[np.int64],
    shared: Bytes,
    destinations: npt.NDArray[np.int64],
    shared_addresses: npt.NDArray[np.int64],
) -> None:
    """Copy boxes to shared memory, each to one or more places; see tma.load_tiles."""
    if isinstance(tensor_map, Im2colMap):
        im2col.load_tiles(arena, arena_base, tensor_map, boxes, shared, destinations, shared_addresses)
    else:
        tma.load_tiles(arena, arena_base, tensor_map, boxes, shared, destinations, shared_addresses)


def store_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: AnyMap,
    box: Sequence[int],
    shared: Bytes,
    source: int,
    shared_address: int,
    operation: str | None = None,
) -> int:
    """Copy a tile of shared memory to a box, or combine it with the box; see tma.store_tile."""
    if isinstance(tensor_map, Im2colMap):
        return im2col.store_tile(arena, arena_base, tensor_map, box, shared, source, shared_address, operation)
    return tma.store_tile(arena, arena_base, tensor_map, box, shared, source, shared_address, operation)


def chunks_in_bounds(tensor_map: AnyMap, box: Sequence[int]) -> npt.NDArray[np.bool_] | None:
    """Which of `tile_chunks` hold a part of a box inside the tensor; None for all."""
    if isinstance(tensor_map, Im2colMap):
        return im2col.chunks_in_bounds(tensor_map, box)
    return tma.chunks_in_bounds(tensor_map, box)
