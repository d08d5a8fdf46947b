"""What became of the loops that a source wants unrolled."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.jit.instructions import Listing, Place
from tilewright.jit.loops import Loop

_PRAGMA = re.compile(r'^\s*(?:#\s*pragma\s+unroll\b|_Pragma\s*\(\s*"unroll\b)\s*\(?\s*([\w:.]*)')
_LOOP = re.compile(r"\b(?:for|while)\s*\(|\bdo\b")
SOME = 2
"""The least copies that a pragma without a number asks for."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop with a pragma. place: of its `for`. pragma: as it is written.

    wanted: the least copies of its body that the pragma asks for.
    copies: how many a turn has in the PTX; None if no loop is left there.
    """

    place: Place
    pragma: str
    wanted: int
    copies: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"place": str(self.place), "pragma": self.pragma, "copies": self.copies}


def unrolled(sources: Mapping[str, str], ptx: Listing, loops: Sequence[Loop]) -> list[Unrolled]:
    """The loops with a pragma, `#pragma unroll 1` apart, of which there is code. sources: texts by file."""
    copies: dict[Place, int] = {}
    for loop in loops:
        if loop.place is not None:
            copies[loop.place] = max(copies.get(loop.place, 0), loop.copies)
    used = {place for each in ptx.instructions for place in each.places}
    found = []
    for file, text in sources.items():
        lines = {place.line for place in used if place.file == file}
        for first, last, pragma, number in _pragmas(text):
            if lines & set(range(first, last + 1)):
                place = Place(file, first)
                found.append(Unrolled(place, pragma, int(number) if number.isdigit() else SOME, copies.get(place)))
    return found


def _pragmas(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Of each loop behind a pragma: its first and its last line, the pragma, and the number in it."""
    lines = [line.partition("//")[0] for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        asked = _PRAGMA.match(line)
        if asked is None or asked[1] == "1":
            continue
        at = next((at for at in range(number, len(lines)) if lines[at].strip()), None)
        if at is not None and _LOOP.search(lines[at]):
            yield at + 1, _end(lines, at) + 1, f"#pragma unroll {asked[1]}".strip(), asked[1]


def _end(lines: Sequence[str], first: int) -> int:
    """The line on which a statement that begins on line `first` ends: at its last brace, or at a semicolon."""
    parentheses = braces = 0
    for at in range(first, len(lines)):
        for letter in lines[at]:
            parentheses += (letter == "(") - (letter == ")")
            braces += (letter == "{") - (letter == "}")
            if parentheses == braces == 0 and letter in ";}":
                return at
    return len(lines) - 1
