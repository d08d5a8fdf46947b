"""What launches have not exercised, in words and as plain data."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

_MOST_LINES = 8
"""The source lines of each kind that a summary names."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that no launch has exercised.

    location: the instruction, in words; of a ring of mbarriers, a wait for it.
    detail: what is missing.
    line: its source line, or PTX:LINE.
    """

    location: str
    detail: str
    line: str


@dataclass(frozen=True, slots=True)
class Part:
    """The gaps of one kind, among `total` that there could be."""

    total: int
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Gaps:
    """What launches of a kernel, under all schedules together, have not exercised.

    rings: of the mbarriers that are waited for at the same instructions, those of which only one parity was asked for:
    no slot was used again, so a wrong parity or a missing wait for an empty slot cannot show.
    branches: of the branches with a guard, those that all threads took, or none.
    accesses: of the accesses with a guard, those whose guard held in all threads, or in none.
    operations: the asynchronous copies, stores and products that were never issued.
    lines: the source lines of which no instruction ran.

    Instructions of one source line, inlined at the same lines, count as one: they may be copies in an unrolled loop.
    What right launches cannot exercise is left out: looking again at an mbarrier, and the ways to a trap.
    """

    rings: Part
    branches: Part
    accesses: Part
    operations: Part
    lines: Part

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: of each kind the total, and the list `missed` of the gaps."""
        return {name: {"total": part.total, "missed": list(map(asdict, part.gaps))} for name, part in self._parts()}

    def summary(self) -> list[str]:
        """A sentence on the gaps and one on their source lines; nothing if there are no gaps."""
        missed = [(name, part) for name, part in self._parts() if part.gaps]
        if not missed:
            return []
        what = [f"{len(part.gaps)} of {part.total} {_SAID[name]}{_details(part)}" for name, part in missed]
        where = [f"{name}: {_in_words(gap.line for gap in part.gaps)}" for name, part in missed]
        return ["; ".join(what), "; ".join(where)]

    def _parts(self) -> Iterator[tuple[str, Part]]:
        for name in _SAID:
            yield name, getattr(self, name)


_SAID = {
    "rings": "mbarrier rings did not wrap",
    "branches": "branches went one way",
    "accesses": "guards of accesses went one way",
    "operations": "asynchronous operations were never issued",
    "lines": "source lines never ran",
}
"""What a summary says of the gaps of each kind."""


def _details(part: Part) -> str:
    """What is missing at the gaps of one kind, if that is not said by the kind itself."""
    counts = Counter(gap.detail for gap in part.gaps if gap.detail)
    alone = len(part.gaps) == 1
    said = ", ".join(detail if alone else f"{count}x {detail}" for detail, count in sorted(counts.items()))
    return said and f" ({said})"


def _in_words(lines: Iterable[str]) -> str:
    """Source lines in words, each file once: sum.cu:3, 7, ring.cuh:5."""
    places = sorted({(file, int(number)) for file, _, number in (line.rpartition(":") for line in lines)})
    shown = places[:_MOST_LINES]
    files = [f"{file}:{', '.join(str(number) for _, number in group)}" for file, group in groupby(shown, itemgetter(0))]
    return ", ".join(files) + (f" and {len(places) - len(shown)} more" if len(places) > len(shown) else "")
