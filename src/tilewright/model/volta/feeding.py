"""How Volta's tensor cores are fed from SMEM: by `load_matrix_sync` of wmma, or by loads for mma.m8n8k4.

A CTA has tiles of 128 x 32 of A and 32 x 256 of B in halves, and each of its eight warps a 64 x 64 block of C. For
wmma, rows of both tiles lie along k, and a lane reads 16 bytes of a row at once. For mma.m8n8k4, chunks of 16 bytes lie
along m and n, and a permutation keeps the chunks that a quarter of a warp reads in one row of banks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.hardware import MAX_SMEM_BYTES, WARP
from tilewright.model.fragments.instructions import fragments_of
from tilewright.model.memory.banks import Indices, bank_use
from tilewright.model.memory.layouts import CHUNKS, volta
from tilewright.model.memory.swizzle import CHUNK_BYTES
from tilewright.rounding import natural

TILE_M, TILE_N, TILE_K, WARP_BLOCK = 128, 256, 32, 64
"""Of a CTA, and rows or columns of a warp's block."""
HALF = 2
"""Bytes of an element."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """What a warp does to read its parts of both tiles once.

    smem_bytes: of both tiles. loads: of 16 bytes a lane. wavefronts: passes over the banks that they take; ideal:
    without conflicts.
    """

    name: str
    smem_bytes: int
    loads: int
    wavefronts: int
    ideal: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def feedings() -> tuple[Feeding, ...]:
    """wmma with rows one after another and padded, and mma.m8n8k4 with permuted chunks."""
    return (wmma(0), wmma(CHUNK_BYTES), quad_pairs())


def wmma(padding: int) -> Feeding:
    """`load_matrix_sync` of fragments of 16 x 16, with so many unused bytes after each row along k."""
    if natural("padding", padding, 0, MAX_SMEM_BYTES) % CHUNK_BYTES:
        raise ArgumentValueError(f"padding={padding} is no multiple of {CHUNK_BYTES} bytes: use one")
    pitch = TILE_K * HALF + padding
    name = f"wmma, rows of {TILE_K * HALF}" + (f" + {padding} bytes" if padding else " bytes")
    return _feeding(name, pitch * (TILE_M + TILE_N), _of_fragments(pitch))


def quad_pairs() -> Feeding:
    """Two fragments of mma.m8n8k4 in each load, from permuted chunks."""
    return _feeding("mma.m8n8k4, permuted chunks", TILE_K * HALF * (TILE_M + TILE_N), _of_chunks())


def _of_fragments(pitch: int) -> Iterator[Indices]:
    product = fragments_of("wmma.volta.m16n16k16")
    by_row, by_column = (product.of(matrix).places[axis][:, 0, 0] for axis, matrix in enumerate("AB"))
    for lines in (by_row, by_column):
        for first in range(0, WARP_BLOCK, 16):
            for chunk in range(TILE_K * HALF // CHUNK_BYTES):
                yield (first + lines) * pitch + chunk * CHUNK_BYTES


def _of_chunks() -> Iterator[Indices]:
    lane, place = np.arange(WARP, dtype=np.int64), volta().place
    of_a, of_b = lane // 4 % 2, lane // 8 % 2  # quad pairs 1 and 3 read other rows of A, and 2 and 3 other columns of B
    for pair in (of_a, of_b):
        for _ in range(TILE_K // 4):  # blocks of four steps of k are alike
            for first in range(0, CHUNKS, 4):
                yield place(lane % 4, first + lane // 16 * 2 + pair)


def _feeding(name: str, smem_bytes: int, loads: Iterable[Indices]) -> Feeding:
    used = [bank_use(addresses, CHUNK_BYTES) for addresses in loads]
    return Feeding(
        name, smem_bytes, len(used), sum(each.wavefronts for each in used), sum(each.ideal for each in used)
    )  # fmt: skip
