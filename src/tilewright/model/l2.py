"""A minimal set-associative L2, and what a tiled product reads through it: the price of an order of tiles in DRAM."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cache:
    """`nbytes` of lines of `line_bytes`, each kept in one of the `ways` places of its set; least recently used goes.

    Lines here are larger than a GPU's 128 bytes, so that a simulation takes seconds: a piece of a tile is read as a
    whole anyway.
    """

    nbytes: int
    ways: int = 16
    line_bytes: int = 4096

    @property
    def sets(self) -> int:
        """Number of sets; lines are spread over them by their number."""
        return max(1, self.nbytes // (self.ways * self.line_bytes))


H200_L2 = Cache(60 << 20)
"""What an H200 reports as its L2 (seen on one); its hardware splits it in two, which is not modelled."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a stream of reads did: `lines` in all, of which `misses` came from DRAM."""

    lines: int
    misses: int

    @property
    def hit_rate(self) -> float:
        """Share of the reads that the cache served."""
        return 1 - self.misses / self.lines if self.lines else 1.0


def simulate(lines: Iterable[int], cache: Cache) -> Reads:
    """Read lines, by number, in order, from a cache that is empty at first."""
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(cache.sets)]
    total = misses = 0
    for line in lines:
        places = sets[line % cache.sets]
        total += 1
        if line in places:
            places.move_to_end(line)
            continue
        misses += 1
        if len(places) == cache.ways:
            places.popitem(last=False)
        places[line] = None
    return Reads(total, misses)


def product_reads(
    order: Sequence[tuple[int, int]],
    *,
    tile_m: int,
    tile_n: int,
    tile_k: int,
    k: int,
    element_bytes: int,
    ctas: int,
    line_bytes: int,
) -> Iterator[int]:
    """The lines that a persistent kernel reads, when its CTAs go along k in step.

    `order` holds tiles of out as (row, column), counted in tiles; of `ctas` CTAs number i takes tiles i, i + ctas, ...
    A tile of A or B of one k-block, of which 1 to `tile_k` columns exist, is stored as consecutive lines; A and B do
    not share lines.
    """
    k_blocks = -(-k // tile_k)
    a_lines = -(-tile_m * tile_k * element_bytes // line_bytes)
    b_lines = -(-tile_n * tile_k * element_bytes // line_bytes)
    rows = 1 + max((m for m, _ in order), default=-1)
    b_start = rows * k_blocks * a_lines
    for first in range(0, len(order), ctas):
        wave = order[first : first + ctas]
        for k_block in range(k_blocks):
            for m, n in wave:
                a = (m * k_blocks + k_block) * a_lines
                b = b_start + (n * k_blocks + k_block) * b_lines
                yield from range(a, a + a_lines)
                yield from range(b, b + b_lines)
