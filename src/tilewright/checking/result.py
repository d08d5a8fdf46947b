"""The result of a check: one kernel under every order of asynchronous completion, with reports and counters."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.checking.asynchrony import Asynchrony

if TYPE_CHECKING:
    from tilewright.emulator import Counters


def _not_counted() -> dict[str, Any]:
    return {"totals": {}, "by_line": {}, "by_line_inclusive": {}}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings about one kernel, as `tilewright check --json` prints them.

    kernel: its name.
    product, config: the product and the Config, or the PTX file; empty if there is none.
    verified: True if there are no findings, None if nothing ran, or not to its end.
    skipped: why nothing ran; empty otherwise.
    reports: the findings, each once, with the keys kind, message, locations, threads, address, rule, section and
    schedules.
    counters: totals, by_line and by_line_inclusive of the first run.
    schedules: the orders of asynchronous completion that it ran under.
    error: why the check ended early; empty otherwise.
    interrupted: whether Ctrl-C ended it.
    """

    kernel: str
    product: str = ""
    config: str = ""
    verified: bool | None = None
    skipped: str = ""
    error: str = ""
    interrupted: bool = False
    reports: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=_not_counted)
    schedules: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `error` only if there is one."""
        record = dataclasses.asdict(self)
        del record["interrupted"]
        if not self.error:
            del record["error"]
        return record


class Findings:
    """A collector of the findings of one kernel's runs.

    named: puts the names of arrays after the addresses in a sentence.
    ignore: kinds of reports that are dropped.
    """

    def __init__(
        self,
        kernel: str,
        product: str = "",
        config: str = "",
        *,
        named: Callable[[str], str] = str,
        ignore: Sequence[str] = (),
    ) -> None:
        self.kernel, self.product, self.config = kernel, product, config
        self.named, self._ignored = named, frozenset(ignore)
        self.counters: Counters | None = None
        self.error, self.interrupted = "", False
        self._reports: list[dict[str, Any]] = []
        self._schedules: list[str] = []

    def begin(self, asynchrony: Asynchrony) -> None:
        """Record that a run begins."""
        self._schedules.append(str(asynchrony))

    def report(
        self,
        asynchrony: Asynchrony,
        kind: str,
        message: str,
        locations: Sequence[str] = (),
        threads: str | None = None,
        address: int | None = None,
    ) -> None:
        """Add a finding that no check of the device reported; of an error, with its rule."""
        from tilewright.emulator.checks.rules import ERRORS

        rule = ERRORS.get(kind)
        found = {"kind": kind, "message": message, "locations": locations, "threads": threads}
        stated = {"rule": rule.sentence if rule else message, "section": rule.section if rule else None}
        self.add(asynchrony, {**found, "address": address, **stated})

    def add(self, asynchrony: Asynchrony, report: dict[str, Any]) -> None:
        """Add a finding, or the order to an earlier finding of this kind at the same places."""
        if report["kind"] in self._ignored:
            return
        report = {**report, "locations": list(report["locations"])}
        report |= {key: self.named(report[key]) for key in ("message", "rule")}
        for earlier in self._reports:
            if all(earlier[key] == report[key] for key in ("kind", "rule", "locations")):
                if str(asynchrony) not in earlier["schedules"]:
                    earlier["schedules"].append(str(asynchrony))
                return
        self._reports.append({**report, "schedules": [str(asynchrony)]})

    def result(self) -> CheckResult:
        """The findings so far."""
        counters = self.counters
        counted = _not_counted() if counters is None else {
            "totals": counters.as_dict(),
            "by_line": {line: counts.as_dict() for line, counts in counters.by_line.items()},
            "by_line_inclusive": {line: counts.as_dict() for line, counts in counters.by_line_inclusive.items()},
        }  # fmt: skip
        return CheckResult(
            self.kernel,
            self.product,
            self.config,
            verified=None if self.error and not self._reports else not self._reports,
            error=self.error,
            interrupted=self.interrupted,
            reports=self._reports,
            counters=counted,
            schedules=self._schedules,
        )
