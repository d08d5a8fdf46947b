"""Waivers: reports that somebody has looked at and accepts, by kind and place."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tilewright.emulator.checks.reporting.rules import ERRORS, RULES
from tilewright.emulator.ptx.locations import same_file
from tilewright.errors import ArgumentTypeError, ArgumentValueError

_WAIVER = re.compile(r"(?P<kind>[\w-]+)(?:@(?P<file>[^@:\s]+)(?::(?P<line>\d{1,9}))?)?")
FORM = "KIND, KIND@FILE or KIND@FILE:LINE"

IGNORABLE = (*RULES, "ScheduleDependence")
"""Kinds of reports after which a launch goes on."""

Ignored: TypeAlias = "str | Path | Iterable[str | Path]"
"""A waiver, the path of a file of waivers, or several of either."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """A kind of reports that is accepted: everywhere, in a file, or on a line; `PTX` is the file without lines."""

    kind: str
    file: str = ""
    line: int = 0

    def covers(self, kind: str, lines: Sequence[str]) -> bool:
        """Whether this accepts a report of a kind that names these source lines, FILE:LINE each."""
        return kind == self.kind and (not self.file or any(map(self._names, lines)))

    def _names(self, line: str) -> bool:
        file, _, number = line.rpartition(":")
        return same_file(file, self.file) and self.line in (0, int(number))

    def __str__(self) -> str:
        return self.kind + (f"@{self.file}" if self.file else "") + (f":{self.line}" if self.line else "")


def waivers_of(ignore: Ignored, written: str = "ignore={!r}") -> tuple[Waiver, ...]:
    """The waivers that a caller gives.

    written: a format for one of them in messages.

    Raises:
        ArgumentTypeError, ArgumentValueError: for what is not a waiver, and for a file that cannot be read.
    """
    given = [ignore] if isinstance(ignore, str | Path) else ignore
    if not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{written.format(ignore)} is not a waiver: leave it out, or give {FORM}, or several")
    waivers: list[Waiver] = []
    for each in given:
        if isinstance(each, Path):
            waivers += _read(each)
        elif isinstance(each, str):
            waivers.append(_parse(each, written.format(each)))
        else:
            raise ArgumentTypeError(f"{written.format(each)} must be {FORM}, or the Path of a file of such lines")
    return tuple(waivers)


def _read(path: Path) -> list[Waiver]:
    """The waivers of a file: one a line; # begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ArgumentValueError(f"{path} cannot be read: {reason}; name a file of waivers, {FORM}") from error
    texts = [(number, line.partition("#")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_parse(text, f"{path}:{number}: {text!r}") for number, text in texts if text]


def _parse(text: str, written: str) -> Waiver:
    match = _WAIVER.fullmatch(text)
    if match is None:
        raise ArgumentValueError(f"{written} is not a waiver: write {FORM}")
    if match["kind"] in ERRORS:
        raise ArgumentValueError(
            f"{written} cannot be waived, since {match['kind']} ends the launch, and nothing is known about the rest "
            "of it: mend the kernel"
        )
    if match["kind"] not in IGNORABLE:
        raise ArgumentValueError(f"{written} is not a kind of reports: use {', '.join(IGNORABLE)}")
    return Waiver(match["kind"], match["file"] or "", int(match["line"] or 0))
