"""Source lines of instructions, and the chains of calls by which they were inlined into their kernel.

A `.loc` with inlined_at names only the place of the call, and not that place's own caller. Recursive templates call
from one place at every depth, so the place alone does not tell which of the calls it was. The compiler writes the
calls of a chain once, outermost first, before the first instruction of the chain: so the parent of a `.loc` is the
latest one at the place of the call, of another function if there is one (PTX ISA, ".loc").
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.emulator.ptx.syntax import Location

Place: TypeAlias = tuple[int, int, int]
"""File, line and column."""

_MOST_INLINED = 256
"""The length of a chain of inlined source lines; further ones are not recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """A place, and the call that brought it into its kernel."""

    place: Place
    caller: "_Site | None"


class Locations:
    """The locations of one entry, in the order of its text.

    files: names of files by their numbers.
    """

    def __init__(self, files: dict[int, str]) -> None:
        self._files = files
        self._sites: dict[Place, dict[str, _Site]] = {}  # at each place those of each function, the latest one last
        self._locations: dict[tuple[str, ...], Location] = {}

    def of(self, loc: re.Match[str]) -> Location:
        """The location that a match of LOC names."""
        place, function = _place(loc, 1), loc["function"] or ""
        caller = self._latest(_place(loc, 6), function) if loc["inlined"] else None
        known = self._sites.setdefault(place, {})
        before = known.pop(function, None)
        known[function] = site = before if before and before.caller is caller else _Site(place, caller)
        lines: list[tuple[str, int]] = []
        step: _Site | None = site
        while step is not None and len(lines) < _MOST_INLINED:
            lines.append((self._files.get(step.place[0], "?"), step.place[1]))
            step = step.caller
        named = tuple(f"{name}:{line}" for name, line in lines)
        found = self._locations.get(named)
        if found is None:
            found = self._locations[named] = Location(*lines[0], *lines[-1], tuple(dict.fromkeys(named)))
        return found

    def _latest(self, place: Place, callee: str) -> _Site:
        """The latest site at a place, of another function than the callee's if there is one."""
        known = self._sites.get(place, {})
        others = (function for function in reversed(known) if function != callee)
        function = next(others, callee)
        return known[function] if function in known else _Site(place, None)


def _place(loc: re.Match[str], first: int) -> Place:
    return int(loc[first]), int(loc[first + 1]), int(loc[first + 2])


def same_file(one: str, other: str) -> bool:
    """Whether two names of files may be one: equal, or one with folders that the other leaves out."""
    here, there = f"/{one}", f"/{other}"
    return here.endswith(there) or there.endswith(here)
