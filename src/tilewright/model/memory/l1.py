"""L1 as a flow: what becomes of a warp's access to GMEM between its instruction and its registers.

    warp -> MIO -> LSUIN -> SMEM access: data array
                         -> GMEM access: tags -> there and valid: data array
                                              -> otherwise: sectors from L2, kept and handed on

L1 and SMEM are one array. A line of 128 bytes has one tag and four sectors of 32 bytes, each valid or not; only missing
sectors are fetched. The tag stage compares four tags in a clock. A set holds as many lines as it has ways, and a new
line replaces one of its set. Sources: A. Gordić, "Inside NVIDIA GPUs", figures 13 and 14, for the flow; NVIDIA's answer
about Volta's L1 in its developer forum ("Pascal L1 cache", 2018) for tags and sectors; Z. Jia et al., "Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, for four sets. How addresses choose a set and which line is
replaced is not published: here it is the line's number modulo the sets, and the least recently used or oldest line.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from tilewright.errors import ArgumentValueError
from tilewright.hardware import SECTOR_BYTES
from tilewright.model.memory.banks import Indices
from tilewright.model.memory.coalescing import LINE_BYTES, coalescing
from tilewright.model.memory.pattern import Expression, addresses_of
from tilewright.rounding import ceil_div, natural, one_of

TAGS_PER_CLOCK = 4
SETS = 4
_SECTORS = LINE_BYTES // SECTOR_BYTES

SM_WARPS = 64
"""The most that an SM of any chip holds."""
MOST_LOADS = 1 << 16
"""Of a loop that is followed: more take too long."""

Replacement = Literal["lru", "fifo"]
"""The line that makes room: the least recently used one, or the oldest one."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What L1 does for some accesses.

    requests: accesses of warps. lines: tags compared, with tag_clocks. hits: sectors that were there.
    missing_sectors: sectors that were not valid in a line that was there. missing_lines: sectors of lines that were not
    there. evictions: lines that made room.
    """

    requests: int = 0
    lines: int = 0
    tag_clocks: int = 0
    hits: int = 0
    missing_sectors: int = 0
    missing_lines: int = 0
    evictions: int = 0

    def __add__(self, other: "Flow") -> "Flow":
        return Flow(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(Flow)))

    @property
    def sectors(self) -> int:
        """All sectors that were asked for."""
        return self.hits + self.missing_sectors + self.missing_lines

    @property
    def l2_bytes(self) -> int:
        """What L2 delivers."""
        return (self.missing_sectors + self.missing_lines) * SECTOR_BYTES

    @property
    def hit_rate(self) -> float:
        """The share of sectors that were there."""
        return self.hits / self.sectors if self.sectors else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        counted = {item.name: getattr(self, item.name) for item in fields(Flow)}
        return {**counted, "sectors": self.sectors, "l2_bytes": self.l2_bytes, "hit_rate": self.hit_rate}


class L1:
    """An L1 that starts empty; `nbytes` is what SMEM leaves of the array.

    Raises an ArgumentValueError unless the bytes are lines for whole sets.
    """

    def __init__(self, nbytes: int, sets: int = SETS, replacement: Replacement = "lru") -> None:
        natural("sets", sets, 1)
        natural("nbytes", nbytes)
        one_of("replacement", replacement, get_args(Replacement))
        if nbytes < LINE_BYTES * sets or nbytes % (LINE_BYTES * sets):
            raise ArgumentValueError(
                f"sets={sets} do not divide an L1 of {nbytes} bytes into whole lines of {LINE_BYTES}: use a divisor of "
                f"{nbytes // LINE_BYTES}, or a multiple of {LINE_BYTES * sets} bytes"
            )
        self.ways, self._by_use = nbytes // (LINE_BYTES * sets), replacement == "lru"
        self._sets: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(sets)]  # line -> bits of valid sectors

    def load(self, addresses: Indices, width: int = 4) -> Flow:
        """What a load of a warp meets, -1 for a lane without one; afterwards its sectors are there.

        Raises an ArgumentValueError as `coalescing` does.
        """
        touched = coalescing(addresses, width)
        hits = missing_sectors = missing_lines = evictions = 0
        for line in touched.lines:
            wanted = sum(1 << sector % _SECTORS for sector in touched.sectors if sector // _SECTORS == line)
            places = self._sets[line % len(self._sets)]
            valid = places.get(line)
            if valid is None:
                missing_lines += wanted.bit_count()
                if len(places) == self.ways:
                    places.popitem(last=False)
                    evictions += 1
                places[line] = wanted
                continue
            hits += (wanted & valid).bit_count()
            missing_sectors += (wanted & ~valid).bit_count()
            places[line] = valid | wanted
            if self._by_use:
                places.move_to_end(line)
        lines = len(touched.lines)
        clocks = ceil_div(lines, TAGS_PER_CLOCK)
        return Flow(1, lines, clocks, hits, missing_sectors, missing_lines, evictions)


def flow_of(l1: L1, expression: str, width: int, steps: int, warps: int) -> list[Flow]:
    """The flow of each step of a loop, in which one warp after another loads at an expression's addresses.

    The expression may name `lane`, `warp` and `step`. Raises an ArgumentValueError for what `addresses_of` and
    `coalescing` refuse, and for numbers below 1.
    """
    natural("steps", steps, 1)
    natural("warps", warps, 1, SM_WARPS)
    if steps * warps > MOST_LOADS:
        raise ArgumentValueError(
            f"{steps:,} steps of {warps:,} warps are too many loads to follow: give {MOST_LOADS:,} at most"
        )
    parsed = Expression(expression)
    return [
        total(l1.load(addresses_of(parsed, warp=warp, step=step), width) for warp in range(warps))
        for step in range(steps)
    ]


def total(flows: Iterable[Flow] | Sequence[Flow]) -> Flow:
    """All of them together."""
    return sum(flows, Flow())
