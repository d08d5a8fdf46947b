"""Findings with their source lines, as compilers show errors."""

import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.emulator import EmulatorError
from tilewright.emulator.errors import lines_of

MOST_BYTES = 1 << 24
"""A larger file is not quoted."""


def explained(report: Mapping[str, Any], files: Mapping[str, str], level: str = "error") -> str:
    """A report, a record as in CheckResult.reports, with its source lines; files: their paths by name."""
    message = f"{report['kind']}: {report['message']}"
    text = _with_lines(message, report["locations"], files, level)
    if report.get("more"):
        text += f"\n  and {report['more']} more like it on these lines"
    if report.get("section"):
        text += f"\n  rule: {report['rule']} (PTX ISA, {report['section']})"
    return text


def explained_error(error: object, files: Mapping[str, str]) -> str:
    """An error that ended a launch, with its source lines; empty for any other."""
    if not isinstance(error, EmulatorError) or not error.locations:
        return ""
    return _with_lines(f"{type(error).__name__}: {error}", error.locations, files, "error")


def _with_lines(message: str, locations: Sequence[str], files: Mapping[str, str], level: str) -> str:
    """The message at its first line, then a note for each other line, each with its text."""
    first: dict[str, str] = {}
    for location in locations:
        for line in lines_of(location):
            first.setdefault(line, location)
    if not first:
        return f"{level}: {message}"
    said = [f"{level}: {message}", *(f"note: {location}" for location in [*first.values()][1:])]
    return "\n".join(
        "\n".join([f"{line}: {words}", *_quoted(line, files)]) for line, words in zip(first, said, strict=True)
    )


def _quoted(place: str, files: Mapping[str, str]) -> list[str]:
    """The text of a line, FILE:LINE, underlined; nothing if the file cannot be read."""
    name, _, number = place.rpartition(":")
    lines = _lines(Path(files[name])) if name in files else ()
    if not 0 < int(number) <= len(lines):
        return []
    text = lines[int(number) - 1].expandtabs(4).rstrip()
    bare = text.lstrip()
    gutter = " " * len(number)
    return [f"  {number} | {text}", f"  {gutter} | {' ' * (len(text) - len(bare))}^{'~' * (len(bare) - 1)}"]


def _lines(path: Path) -> tuple[str, ...]:
    """The lines of a file as it is now; none if it is no file, or too large for a source."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return ()
        return _lines_of(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return ()


@lru_cache(maxsize=256)
def _lines_of(path: Path, changed: int, size: int) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
