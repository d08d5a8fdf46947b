"""Layouts of a tile in SMEM beside each other: rows one after another, padded, swizzled, and permuted as on Volta.

A tile has rows of 16-byte chunks. A warp fills it with chunks along its rows, and reads it down its columns: ldmatrix
reads eight rows of a column of chunks in a pass, and a transposition writes what it has read along a row down a column.
Where rows are 128 bytes, one after another, all chunks of a column lie in the same four banks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.hardware import MAX_SMEM_BYTES, WARP
from tilewright.model.memory.banks import BankUse, Indices, bank_use
from tilewright.model.memory.swizzle import CHUNK_BYTES, swizzle_of
from tilewright.rounding import natural

VOLTA_ROWS = 4
"""Rows of a tile that Volta's permutation mixes: one step of k for each lane of a quad."""
MOST_SMEM_ROWS = MAX_SMEM_BYTES // CHUNK_BYTES
"""Rows or columns of chunks that shared memory can hold."""
CHUNKS = 8
"""Chunks of a row that meet all banks."""


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Where each chunk of a tile is kept.

    rows, chunks: of the tile. nbytes: what the tile takes. place: the byte offset of chunks, from their rows and
    columns. row, column: the chunk (its row, its column) of each lane of a warp that copies along rows, and of one that
    reads down columns; the latter is what the tensor cores of the time want.
    """

    name: str
    rows: int
    chunks: int
    nbytes: int
    place: Callable[[Indices, Indices], Indices]
    along_rows: tuple[Indices, Indices]
    down_columns: tuple[Indices, Indices]

    def addresses(self, lanes: tuple[Indices, Indices]) -> Indices:
        """The addresses at which the lanes of a warp access these chunks."""
        return self.place(*lanes)

    def use(self, lanes: tuple[Indices, Indices]) -> BankUse:
        """What it takes a warp to store these chunks, or to load them by ldmatrix, which has phases like a store's."""
        return bank_use(self.addresses(lanes), CHUNK_BYTES, "st")

    def chunk_at(self) -> Indices:
        """The tile as SMEM keeps it: which chunk (row times chunks plus column) is in each place, -1 for a gap."""
        row, column = np.divmod(np.arange(self.rows * self.chunks, dtype=np.int64), self.chunks)
        found = np.full(self.nbytes // CHUNK_BYTES, -1, np.int64)
        found[self.place(row, column) // CHUNK_BYTES] = row * self.chunks + column
        return found


def linear(rows: int = 8, chunks: int = CHUNKS) -> TileLayout:
    """Rows one after another."""
    return padded(0, rows, chunks)


def padded(padding: int, rows: int = 8, chunks: int = CHUNKS) -> TileLayout:
    """Rows with `padding` bytes after each, which moves the next row on by as many banks.

    Raises an ArgumentValueError unless chunks stay aligned.
    """
    natural("rows", rows, 1, MOST_SMEM_ROWS)
    natural("chunks", chunks, 1, MOST_SMEM_ROWS)
    if natural("padding", padding, 0, MAX_SMEM_BYTES) % CHUNK_BYTES:
        raise ArgumentValueError(
            f"padding={padding} is no multiple of {CHUNK_BYTES} bytes: use one, so that chunks stay aligned"
        )
    pitch = chunks * CHUNK_BYTES + padding
    name = f"rows of {chunks * CHUNK_BYTES}" + (f" + {padding} bytes" if padding else " bytes")
    return _layout(name, rows, chunks, rows * pitch, lambda row, column: row * pitch + column * CHUNK_BYTES)


def swizzled(span: int = 128, rows: int = 8) -> TileLayout:
    """Rows as long as the span of a swizzle of TMA, which permutes their chunks."""
    natural("rows", rows, 1, MOST_SMEM_ROWS)
    swizzle = swizzle_of(span)
    chunks = span // CHUNK_BYTES
    return _layout(
        f"{span}-byte swizzle", rows, chunks, rows * span,
        lambda row, column: swizzle(row * span + column * CHUNK_BYTES),
    )  # fmt: skip


def volta(permuted: bool = True) -> TileLayout:
    """Four steps of k (rows) of 64 elements along m, for the quad pairs of Volta's mma.m8n8k4.

    Lane l of a warp loads chunk l % 8 of row l // 8 from GMEM. To multiply, it wants row l % 4, its step of k, in the
    chunk that its quad pair and its half of the warp choose. So the four lanes of a quad read down a column. The
    permutation keeps chunk c of row k in row c // 2, at position (k xor c // 2) + 4 (c % 2): a column becomes half a
    row. Source: CUTLASS, layout::VoltaTensorOpMultiplicandCongruous; the third of the articles draws it.
    """
    lane = np.arange(WARP, dtype=np.int64)
    k, quad_pair, half = lane % 4, lane // 4 % 2, lane // 16
    row_bytes = CHUNKS * CHUNK_BYTES

    def place(row: Indices, column: Indices) -> Indices:
        if not permuted:
            return row * row_bytes + column * CHUNK_BYTES
        line = column // 2
        return line * row_bytes + ((row ^ line) + 4 * (column % 2)) * CHUNK_BYTES

    return TileLayout(
        "rows of 128 bytes, permuted for Volta" if permuted else "rows of 128 bytes, for Volta", VOLTA_ROWS, CHUNKS,
        VOLTA_ROWS * row_bytes, place, (lane // CHUNKS, lane % CHUNKS), (k, 2 * half + quad_pair),
    )  # fmt: skip


def _layout(name: str, rows: int, chunks: int, nbytes: int, place: Callable[[Indices, Indices], Indices]) -> TileLayout:
    """A layout whose tile is read by ldmatrix: eight rows of a column of chunks after another."""
    lane = np.arange(WARP, dtype=np.int64)
    return TileLayout(
        name, rows, chunks, nbytes, place,
        (lane // chunks % rows, lane % chunks), (lane % rows, lane // rows % chunks),
    )  # fmt: skip


def usual_layouts() -> tuple[TileLayout, ...]:
    """The layouts that a page compares: all of Hopper's, and Volta's before and after."""
    return (
        linear(), padded(CHUNK_BYTES), swizzled(128), linear(chunks=4), swizzled(64), linear(chunks=2), swizzled(32),
        volta(permuted=False), volta(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transposition:
    """The transposition of a tile of chunks through SMEM: written along rows, read down columns."""

    layout: TileLayout
    write: BankUse
    read: BankUse

    @property
    def ways(self) -> float:
        """How many times as long the worse of both takes as without conflicts."""
        return max(self.write.ways, self.read.ways)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "layout": self.layout.name,
            "bytes": self.layout.nbytes,
            "write_wavefronts": self.write.wavefronts,
            "read_wavefronts": self.read.wavefronts,
            "ideal_wavefronts": self.read.ideal,
            "ways": self.ways,
        }


def transposition(layout: TileLayout) -> Transposition:
    """What it takes a warp to write a tile along its rows and to read it down its columns."""
    return Transposition(layout, layout.use(layout.along_rows), layout.use(layout.down_columns))
