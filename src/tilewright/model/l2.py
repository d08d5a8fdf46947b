"""A minimal model of a set-associative L2: the reads of a tiled product that go to DRAM, for an order of tiles."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.rounding import ceil_div


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of `nbytes` in lines of `line_bytes`, `ways` lines per set; the least recently used line is evicted.

    Lines are larger than a GPU's 128 bytes, so a simulation takes only seconds. This changes little, because tiles are
    read as a whole.
    """

    nbytes: int
    ways: int = 16
    line_bytes: int = 4096

    @property
    def sets(self) -> int:
        """Number of sets; a line's number chooses its set."""
        return max(1, self.nbytes // (self.ways * self.line_bytes))


H200_L2 = Cache(60 << 20)
"""The L2 size that an H200 reports (observed on one); the hardware splits it in two, which is not modeled."""


@dataclass(frozen=True, slots=True)
class Reads:
    """The result of a stream of reads: the number of `lines`, and the `misses` that came from DRAM."""

    lines: int
    misses: int

    @property
    def hit_rate(self) -> float:
        """The share of reads that the cache served."""
        return 1 - self.misses / self.lines if self.lines else 1.0


def simulate(lines: Iterable[int], cache: Cache) -> Reads:
    """Read the lines of these numbers, in order, from a cache that starts empty."""
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
    """The lines that a persistent kernel reads if its CTAs go along k in step.

    order: tiles of out as (row, column), counted in tiles. CTA number i of `ctas` takes tiles i, i + ctas, ...
    The part of A or B that a tile needs for one k-block is stored as consecutive lines, even if k ends within the
    block. A and B do not share lines.
    """
    k_blocks = ceil_div(k, tile_k)
    a_lines = ceil_div(tile_m * tile_k * element_bytes, line_bytes)
    b_lines = ceil_div(tile_n * tile_k * element_bytes, line_bytes)
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
