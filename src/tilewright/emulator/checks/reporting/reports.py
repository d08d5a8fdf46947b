"""The reports of the checks: what broke a rule, kept once for its source lines, waived or only counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.emulator.checks.reporting.rules import RULES
from tilewright.emulator.checks.reporting.waivers import Waiver
from tilewright.emulator.errors import lines_of


@dataclass(slots=True)
class Report:
    """A rule that a kernel broke.

    kind: a key of RULES.
    message: what happened, in a sentence.
    locations: the instructions with their source lines; the one that broke the rule comes first.
    threads: the threads that executed it.
    address: the address, None for registers.
    more: the number of further pairs of instructions on the same source lines that broke this rule.
    """

    kind: str
    message: str
    locations: tuple[str, ...]
    threads: str
    address: int | None
    more: int = 0

    @property
    def rule(self) -> str:
        """The rule in a sentence."""
        return RULES[self.kind].sentence

    @property
    def section(self) -> str:
        """The section of the PTX ISA manual that states the rule."""
        return RULES[self.kind].section

    @property
    def lines(self) -> tuple[str, ...]:
        """The source lines of the instructions, as FILE:LINE."""
        return tuple(line for location in self.locations for line in lines_of(location))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**asdict(self), "rule": self.rule, "section": self.section}

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}", *(f"  at {where}" for where in self.locations)]
        lines += [f"  and {self.more} more like it on these lines"] if self.more else []
        return "\n".join([*lines, f"  rule: {self.rule} (PTX ISA, {self.section})"])


class Reports(list[Report]):
    """The reports of a device's checks: one for each kind and its source lines, which counts those like it.

    warnings: the reports that are no faults, kept apart.
    unlisted: by kind, the number of reports beyond the first MOST_OF_A_KIND, which are not kept.
    waived: by waiver, the number of reports that it covers, which are not kept either.
    """

    MOST_OF_A_KIND = 100
    _MOST_KEYS = 1 << 16

    def __init__(self, waivers: Sequence[Waiver] = ()) -> None:
        super().__init__()
        self._waivers = waivers
        self.warnings: list[Report] = []
        self.waived: Counter[str] = Counter()
        self.unlisted: Counter[str] = Counter()
        self._seen: set[tuple[object, ...]] = set()
        self._first: dict[tuple[object, ...], Report] = {}
        self._kinds: Counter[str] = Counter()

    def add(self, sites: tuple[object, ...], apart: tuple[object, ...], make: Callable[[], Report]) -> None:
        """Keep or count the report that `make` returns, unless one of these sites was added; kind is one of them.

        apart: tells it from other reports on the same lines that are kept beside it.
        """
        key = (*sites, *apart)
        if key in self._seen:
            return
        counted = len(self._seen) < self._MOST_KEYS
        if counted:
            self._seen.add(key)
        report = make()
        if waivers := [waiver for waiver in self._waivers if waiver.covers(report.kind, report.lines)]:
            self.waived.update(dict.fromkeys(map(str, waivers), int(counted)))
            return
        lines = (report.kind, *apart, *report.lines)
        if (first := self._first.get(lines)) is not None:
            first.more += counted
        elif self._kinds[report.kind] < self.MOST_OF_A_KIND:
            self._first[lines] = report
            self._kinds[report.kind] += 1
            (self.warnings if RULES[report.kind].warning else self).append(report)
        else:
            self.unlisted[report.kind] += counted
