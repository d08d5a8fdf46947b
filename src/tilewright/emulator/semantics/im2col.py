"""TMA in im2col mode: columns of pixels, of which a filter covers one each.

The corner of a filter moves over a bounding box, along width, height, depth and then to the next image, and a column
holds the pixels at an offset from the corner. A column is named by the coordinates of its first corner and, for loads,
the offsets behind them: (boxes, rank + rank - 2), innermost first.

Source: PTX ISA, "im2col mode"; CUDA driver API, cuTensorMapEncodeIm2col.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.emulator.memory import Bytes
from tilewright.emulator.semantics.reductions import reduce_into
from tilewright.emulator.semantics.sectors import whole_sectors
from tilewright.emulator.semantics.swizzle import CHUNK
from tilewright.emulator.semantics.tensor_map import Im2colMap
from tilewright.emulator.semantics.tiles import Rows, as_loaded, chunk_indices, filled, tile_shape


class _Column(NamedTuple):
    """A column of pixels: the inside of the tensor, and where in the tile it goes.

    pixels: the numbers of those inside the images.
    starts: their global addresses, at the first channel inside the tensor.
    channels: the bytes of a pixel in the tile that are inside.
    """

    pixels: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    channels: slice

    @property
    def nbytes(self) -> int:
        """Bytes of each pixel that are inside."""
        return int(self.channels.stop - self.channels.start)


def fault_of(tensor_map: Im2colMap, column: Sequence[int], stores: bool) -> str:
    """The rule that a column breaks, empty if none: PTX ISA, "im2col mode" and "cp.async.bulk.tensor"."""
    rank = len(tensor_map.shape)
    corner, offsets = column[1 : rank - 1], column[rank:]
    if any(offset > tensor_map.most_offset for offset in offsets):
        return f"offsets {tuple(offsets)} must be at most {tensor_map.most_offset} for a tensor of {rank} dimensions"
    for name, place, low, extent, step in zip(
        "whd", corner, tensor_map.lower, tensor_map.box, tensor_map.steps, strict=False
    ):
        if not low <= place < low + extent:
            return f"the filter's corner is at {name} {place}, outside its bounding box, {low} to {low + extent - 1}"
        if (place - low) % step:
            return f"the filter's corner is at {name} {place}, no multiple of its step {step} from {low}"
    if stores and (min(tensor_map.lower) < 0 or max(tensor_map.upper) > 0):
        return "the bounding box of a store must lie within the images"
    return ""


def extents(
    tensor_map: Im2colMap, columns: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Global addresses of the first and last bytes of columns, and whether each touches the tensor at all."""
    first, last = np.zeros((2, len(columns)), np.int64)
    inside = np.zeros(len(columns), np.bool_)
    for number, column in enumerate(columns.tolist()):
        if (rows := rows_in_bounds(tensor_map, column)) is not None:
            first[number], last[number] = rows.starts.min(), rows.starts.max() + rows.nbytes - 1
            inside[number] = True
    return first, last, inside


def rows_in_bounds(tensor_map: Im2colMap, column: Sequence[int]) -> Rows | None:
    """The global memory that a column touches; None if it lies wholly outside the tensor."""
    found = _column(tensor_map, column)
    return Rows(found.starts, found.nbytes) if found.pixels.size and found.nbytes else None


def bytes_read(tensor_map: Im2colMap, columns: npt.NDArray[np.int64]) -> int:
    """The bytes that loads of columns bring from L2: whole sectors, pixel by pixel, as for the rows of a box."""
    total, row = 0, tensor_map.channels * tensor_map.element_bytes
    for column in columns.tolist():
        found = _column(tensor_map, column)
        inside = found.nbytes * bool(found.pixels.size)
        total += whole_sectors(found.starts, np.array(inside))
        outside = np.full(tensor_map.pixels, row)
        outside[found.pixels] -= inside
        total += whole_sectors(np.array(0), outside)
    return total


def load_tiles(
    arena: Bytes,
    arena_base: int,
    tensor_map: Im2colMap,
    columns: npt.NDArray[np.int64],
    shared: Bytes,
    destinations: npt.NDArray[np.int64],
    shared_addresses: npt.NDArray[np.int64],
) -> None:
    """Copy columns to shared memory, each to one or more places, and fill what is out of bounds.

    Arguments as for tma.load_tiles. The bounds must have been checked.
    """
    for column, places, address in zip(columns.tolist(), destinations.tolist(), shared_addresses.tolist(), strict=True):
        found, tile = _column(tensor_map, column), filled(tensor_map)
        if found.pixels.size and found.nbytes:
            read = arena[_bytes_of(found) - arena_base]
            tile[found.pixels, found.channels] = as_loaded(tensor_map, read)
        for place in places:
            shared.view(CHUNK)[chunk_indices(tensor_map, shared, place, address)] = tile.view(CHUNK)


def store_tile(
    arena: Bytes,
    arena_base: int,
    tensor_map: Im2colMap,
    column: Sequence[int],
    shared: Bytes,
    source: int,
    shared_address: int,
    operation: str | None = None,
) -> int:
    """Copy a tile of shared memory to a column, or combine it with the column; returns the bytes written.

    Arguments as for tma.store_tile.
    """
    tile = shared.view(CHUNK)[chunk_indices(tensor_map, shared, source, shared_address)].view(np.uint8)
    found = _column(tensor_map.as_stored, column)
    if not found.pixels.size or not found.nbytes:
        return 0
    where, taken = _bytes_of(found) - arena_base, np.ascontiguousarray(tile[found.pixels, found.channels])
    if operation is not None:
        elements = arena[where]
        reduce_into(elements, taken, operation, tensor_map.element_type)
        taken = elements
    arena[where] = taken
    return int(where.size)


def chunks_in_bounds(tensor_map: Im2colMap, column: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which 16-byte chunks of the tile hold a part of the column inside the tensor."""
    found, (pixels, row) = _column(tensor_map, column), tile_shape(tensor_map)
    inside = np.zeros((pixels, row), np.bool_)
    inside[found.pixels, found.channels] = True
    return np.asarray(inside.reshape(-1, 16).any(axis=1))


def _bytes_of(column: _Column) -> npt.NDArray[np.int64]:
    """The global address of each byte inside: (pixels, bytes)."""
    return np.asarray(column.starts[:, None] + np.arange(column.nbytes))


def _column(tensor_map: Im2colMap, column: Sequence[int]) -> _Column:
    rank, size = len(tensor_map.shape), tensor_map.element_bytes
    channel, *corner, image = column[:rank]
    offsets = [*column[rank:]] or [0] * (rank - 2)
    sides = [-(-extent // step) for extent, step in zip(tensor_map.box, tensor_map.steps, strict=True)]
    number, unit = 0, 1
    for place, low, step, side in zip(corner, tensor_map.lower, tensor_map.steps, sides, strict=True):
        number += (place - low) // step * unit
        unit *= side
    numbers = number + np.arange(tensor_map.pixels)
    images = image + numbers // unit
    address = tensor_map.address + images * tensor_map.strides[-1]
    inside = (images >= 0) & (images < tensor_map.shape[-1])
    for d, side in enumerate(sides):
        places = tensor_map.lower[d] + numbers % side * tensor_map.steps[d] + offsets[d]
        numbers = numbers // side
        address = address + places * tensor_map.strides[d]
        inside &= (places >= 0) & (places < tensor_map.shape[1 + d])
    low, high = max(0, -channel), min(tensor_map.channels, tensor_map.shape[0] - channel)
    pixels = np.flatnonzero(inside)
    starts = address[pixels] + (channel + low) * size
    return _Column(pixels, starts, slice(low * size, max(low, high) * size))
