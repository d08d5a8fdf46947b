"""A minimal model of a set-associative L2: the reads of a tiled product that go to DRAM, for an order of tiles.

From the A100 on, L2 is in two partitions. An SM is connected to one of them, and reaches the other through it; a line
has its home in one, that to which its DRAM is connected. NVIDIA says of the A100 that each partition caches what the
SMs connected to it access (white paper, "A100 L2 cache"), so that a line that SMs of both sides read is there twice.
How addresses choose a home is not published: here it is the parity of the line's number.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Reads:
    """The result of a stream of reads in bytes: `nbytes` altogether, of which `missed` came from DRAM."""

    nbytes: int
    missed: int

    @property
    def hit_rate(self) -> float:
        """The share of the bytes that the cache served."""
        return 1 - self.missed / self.nbytes if self.nbytes else 1.0


class _Lines:
    """The lines in a cache, which starts empty."""

    def __init__(self, cache: Cache) -> None:
        self._sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(cache.sets)]
        self._ways = cache.ways

    def touch(self, line: int) -> bool:
        """Whether a line is there; it is now the most recently used one of its set."""
        places = self._sets[line % len(self._sets)]
        if line not in places:
            return False
        places.move_to_end(line)
        return True

    def keep(self, line: int) -> None:
        """Add a line that is not there, instead of the least recently used one of a full set."""
        places = self._sets[line % len(self._sets)]
        if len(places) == self._ways:
            places.popitem(last=False)
        places[line] = None


class Request(NamedTuple):
    """A read: the number of the CTA, that of the line, and how many bytes of the line are wanted."""

    cta: int
    line: int
    nbytes: int


def simulate(requests: Iterable[Request], cache: Cache) -> Reads:
    """Read lines, in order, from a cache that starts empty and serves all CTAs."""
    there = _Lines(cache)
    total = missed = 0
    for _, line, nbytes in requests:
        total += nbytes
        if not there.touch(line):
            missed += nbytes
            there.keep(line)
    return Reads(total, missed)


@dataclass(frozen=True, slots=True)
class PartitionReads(Reads):
    """Reads from two partitions: `far` bytes were in the partition to which the SM is not connected."""

    far: int

    @property
    def near(self) -> int:
        """Bytes that were in the SM's own partition."""
        return self.nbytes - self.missed - self.far


def simulate_partitions(requests: Iterable[Request], cache: Cache, *, copies: bool) -> PartitionReads:
    """Read lines, each for a CTA, from a cache of which each of two partitions has half.

    CTAs with even numbers are connected to one partition, the others to the other one. copies: a line from the far
    partition is then kept in the near one too.
    """
    half = replace(cache, nbytes=cache.nbytes // 2)
    sides = _Lines(half), _Lines(half)
    total = missed = far = 0
    for cta, line, nbytes in requests:
        total += nbytes
        near, home = cta & 1, line.bit_count() & 1
        if (copies or near == home) and sides[near].touch(line):
            continue
        if near == home or not sides[home].touch(line):
            missed += nbytes
            sides[home].keep(line)
        else:
            far += nbytes
        if copies and near != home:
            sides[near].keep(line)
    return PartitionReads(total, missed, far)


def product_requests(
    order: Sequence[tuple[int, int]],
    *,
    m: int,
    n: int,
    k: int,
    tile_m: int,
    tile_n: int,
    tile_k: int,
    element_bytes: int,
    ctas: int,
    line_bytes: int,
) -> Iterator[Request]:
    """The reads of a persistent kernel whose CTAs go along k in step.

    order: tiles of out as (row, column), counted in tiles. CTA number i of `ctas` takes tiles i, i + ctas, ...
    What of A or B a tile needs for one k-block is stored as consecutive lines, and begins a line. At the edges it is
    what the matrices have. A and B do not share lines.
    """
    k_blocks = ceil_div(k, tile_k)
    a_lines = ceil_div(tile_m * tile_k * element_bytes, line_bytes)
    b_lines = ceil_div(tile_n * tile_k * element_bytes, line_bytes)
    b_start = ceil_div(m, tile_m) * k_blocks * a_lines
    for first in range(0, len(order), ctas):
        wave = order[first : first + ctas]
        for k_block in range(k_blocks):
            depth = min(tile_k, k - k_block * tile_k) * element_bytes
            for cta, (row, column) in enumerate(wave):
                a = (row * k_blocks + k_block) * a_lines
                b = b_start + (column * k_blocks + k_block) * b_lines
                height, width = min(tile_m, m - row * tile_m), min(tile_n, n - column * tile_n)
                for start, nbytes in ((a, height * depth), (b, width * depth)):
                    whole, rest = divmod(nbytes, line_bytes)
                    for line in range(start, start + whole):
                        yield Request(cta, line, line_bytes)
                    if rest:
                        yield Request(cta, start + whole, rest)
