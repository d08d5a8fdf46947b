"""How often operands cross each level of memory if a product is cut into tiles.

Who makes a block of m x n elements of out reads m elements of A and n of B for each of k, and does m * n multiply-adds
with them. So m * n / (m + n) multiply-adds pay for a word, and the block alone decides. Blocks are nested: the GPU
makes all of out, a cluster its tiles, a CTA a tile, a warp or an instruction of a warpgroup a part of the tile, and a
thread or an instruction of a warp a part of that. Each has its level of memory.

Source: A. Gordić, "Inside NVIDIA GPUs", for the idea and for square tiles.
"""

from dataclasses import asdict, dataclass
from math import isqrt, sqrt
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.rounding import ceil_div, natural

MOST_ELEMENTS = 1 << 24
"""Of a block whose shapes are compared."""


class Block(NamedTuple):
    """So many rows and columns of out, made from one reading of rows of A and columns of B."""

    m: int
    n: int


def fma_per_word(block: Block) -> float:
    """Multiply-adds for each element of A or B that is read; raises an ArgumentValueError for an extent below 1."""
    if not isinstance(block, tuple) or len(block) != 2:
        raise ArgumentValueError(f"block={block!r} is none: give a Block of rows and columns")
    m, n = (natural(name, extent, least=1) for name, extent in zip("mn", block, strict=True))
    return m * n / (m + n)


def best_fma_per_word(elements: int) -> float:
    """The most multiply-adds per word of any block with so many elements of out: those of a square."""
    return sqrt(natural("elements", elements, least=1)) / 2


def blocks_of(elements: int) -> list[Block]:
    """All blocks with so many elements of out, from one row to one column.

    Raises an ArgumentValueError for a number below 1, or for more than MOST_ELEMENTS.
    """
    if natural("elements", elements, least=1) > MOST_ELEMENTS:
        raise ArgumentValueError(f"elements={elements} are no block of a GPU: give {MOST_ELEMENTS:,} or fewer")
    wide = [Block(m, elements // m) for m in range(1, isqrt(elements) + 1) if elements % m == 0]
    return wide + [Block(n, m) for m, n in reversed(wide) if m != n]


class Blocking(NamedTuple):
    """How a kernel cuts out: the nested blocks that read each level.

    cta: a CTA's tile, which SMEM holds. cluster: the tiles of a cluster together, which read L2 once. warp: the part
    that reads SMEM at once: the tile of a warp, or what one wgmma makes. thread: the part that reads registers: a
    thread's tile, or what one mma.sync makes. None: the kernel does not have this level, as wgmma has no registers of
    operands, or its block is not known.
    """

    cta: Block
    cluster: Block
    warp: Block | None = None
    thread: Block | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The traffic of one level of memory.

    name: the level. reader: who reads it. block: what the reader makes of out. read_bytes: of A and B, for the whole
    product. written_bytes: of out. flops: operations of the product.
    """

    name: str
    reader: str
    block: Block
    read_bytes: int
    written_bytes: int
    flops: int

    @property
    def intensity(self) -> float:
        """Operations for each byte that crosses the level."""
        return self.flops / (self.read_bytes + self.written_bytes)

    @property
    def fma_per_word(self) -> float:
        """Multiply-adds for each element that a block reads, edges and out aside."""
        return fma_per_word(self.block)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "intensity": self.intensity, "fma_per_word": self.fma_per_word}


def levels(m: int, n: int, k: int, blocking: Blocking, nbytes: int = 2, out_nbytes: int = 2) -> list[Level]:
    """The traffic of a product of m x n x k with each level, from GMEM to the registers.

    Rows and columns outside the operands are not read. GMEM counts each operand once, as if L2 missed none. Raises an
    ArgumentValueError for an extent below 1.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("nbytes", nbytes), ("out_nbytes", out_nbytes)):
        natural(name, value, least=1)
    if not isinstance(blocking, Blocking):
        raise ArgumentValueError(f"blocking={blocking!r} is none: give a Blocking of Blocks")
    for part in filter(None, blocking):
        fma_per_word(part)
    flops, out = 2 * m * n * k, m * n * out_nbytes
    cut = [
        ("GMEM", "the GPU", Block(m, n), out),
        ("L2", "a cluster" if blocking.cluster != blocking.cta else "a CTA", blocking.cluster, out),
        ("SMEM", "a warp" if blocking.thread else "a wgmma", blocking.warp, 0),
        ("registers", "a thread or an mma", blocking.thread, 0),
    ]
    return [
        Level(name, reader, block, _read(m, n, k, block) * nbytes, written, flops)
        for name, reader, block, written in cut
        if block is not None
    ]


def _read(m: int, n: int, k: int, block: Block) -> int:
    """Elements of A and B: each column of blocks reads all of A, and each row of blocks all of B."""
    return k * (m * ceil_div(n, block.n) + n * ceil_div(m, block.m))
