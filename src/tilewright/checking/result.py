"""The result of a check: one kernel under every order of asynchronous completion, with reports and counters."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.checking.asynchrony import Asynchrony
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.emulator import Counters, Coverage
    from tilewright.emulator.checks.reporting.reports import Reports
    from tilewright.emulator.checks.reporting.waivers import Waiver


def _not_counted() -> dict[str, Any]:
    return {"totals": {}, "by_line": {}, "by_line_inclusive": {}}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings about one kernel, as `tilewright check --json` prints them.

    kernel: its name.
    product, config: the product and the Config, or the PTX file; empty if there is none.
    sms: how many multiprocessors are emulated; None for a kernel of a file.
    verified: True if there are no findings, None if nothing ran, or not to its end.
    skipped: why nothing ran; empty otherwise.
    reports: the findings, one for each kind and its source lines, with the keys kind, message, locations, threads,
    address, more (the number of others like it on these lines), rule, section and schedules.
    unlisted: by kind, the number of reports on further lines that are not listed.
    warnings: findings that are no faults, in the form of reports.
    waived: by waiver, the number of reports that it covers.
    unused_waivers: the waivers that cover none, unless the check ended early.
    counters: totals, by_line and by_line_inclusive of the first run.
    coverage: what the runs did not exercise: `summary`, in words, and under each of rings, branches, accesses,
    operations and lines (`tilewright.emulator.Gaps`) the `total` and what was `missed`; empty if nothing ran.
    schedules: the orders of asynchronous completion that it ran under.
    error: why the check ended early; empty otherwise.
    registers: those of a thread at a line, if these were asked for: `RegisterTrace.found`.
    interrupted: whether Ctrl-C ended it.
    files: the paths of source files, by the names that locations have for them.
    """

    kernel: str
    product: str = ""
    config: str = ""
    sms: int | None = None
    verified: bool | None = None
    skipped: str = ""
    error: str = ""
    interrupted: bool = False
    reports: list[dict[str, Any]] = field(default_factory=list)
    unlisted: dict[str, int] = field(default_factory=dict)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    waived: dict[str, int] = field(default_factory=dict)
    unused_waivers: list[str] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=_not_counted)
    coverage: dict[str, Any] = field(default_factory=dict)
    schedules: list[str] = field(default_factory=list)
    registers: list[dict[str, Any]] | None = None
    files: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `error` and `registers` only if there are any."""
        record = dataclasses.asdict(self)
        del record["interrupted"], record["files"]
        if not self.error:
            del record["error"]
        if self.registers is None:
            del record["registers"]
        return record

    def __str__(self) -> str:
        """The findings with their source lines, for people."""
        from tilewright.checking.excerpts import explained

        found = [explained(report, self.files) for report in self.reports]
        found += [explained(warning, self.files, "warning") for warning in self.warnings]
        verdict = {True: "clean", False: f"{len(self.reports)} reported", None: "not verified"}[self.verified]
        reason = self.error or self.skipped
        return "\n\n".join([f"{self.kernel} {self.product}: {verdict}{f', {reason}' if reason else ''}", *found])


def merged(results: Sequence[CheckResult]) -> CheckResult:
    """The results of several launches as one, of all of them; counters are sums.

    The launches have noted what they exercise in one Coverage, so that the last result says it of all.
    """
    if len(results) == 1:
        return results[0]
    if not results:
        raise ArgumentValueError("kernel launches nothing, so nothing was checked: pass one that launches a kernel")
    verdicts = [result.verified for result in results]
    return CheckResult(
        ", ".join(dict.fromkeys(result.kernel for result in results)),
        ", ".join(dict.fromkeys(result.product for result in results)),
        verified=False if False in verdicts else None if None in verdicts else True,
        interrupted=any(result.interrupted for result in results),
        error="\n".join(result.error for result in results if result.error),
        reports=[report for result in results for report in result.reports],
        unlisted=_total([result.unlisted for result in results]),
        warnings=[warning for result in results for warning in result.warnings],
        waived=_total([result.waived for result in results]),
        unused_waivers=[
            waiver
            for waiver in dict.fromkeys(waiver for result in results for waiver in result.unused_waivers)
            if all(waiver in result.unused_waivers for result in results)
        ],
        counters=_total([result.counters for result in results]),
        coverage=results[-1].coverage,
        schedules=list(dict.fromkeys(schedule for result in results for schedule in result.schedules)),
        registers=[each for result in results for each in result.registers or ()]
        if results[0].registers is not None
        else None,
        files={name: path for result in results for name, path in result.files.items()},
    )


def _total(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Records of numbers, added by key; rates come anew from what they are rates of."""
    keys = dict.fromkeys(key for record in records for key in record)
    total: dict[str, Any] = {}
    for key in keys:
        values = [record[key] for record in records if key in record]
        total[key] = _total(values) if isinstance(values[0], dict) else sum(values)
    if "sectors_per_request" in total:
        sectors = total["global_sectors"]
        total["sectors_per_request"] = {kind: sectors[kind] / n for kind, n in total["global_requests"].items()}
    return total


class Findings:
    """A collector of the findings of one kernel's runs.

    named: puts the names of arrays after the addresses in a sentence.
    waivers: what is accepted, and only counted.
    coverage: the observer that each run needs, of what they exercise; given, that of earlier launches too.
    """

    def __init__(
        self,
        kernel: str,
        product: str = "",
        config: str = "",
        sms: int | None = None,
        *,
        named: Callable[[str], str] = str,
        waivers: "Sequence[Waiver]" = (),
        coverage: "Coverage | None" = None,
    ) -> None:
        from tilewright.emulator import Coverage

        self.kernel, self.product, self.config, self.sms = kernel, product, config, sms
        self.coverage = coverage or Coverage()
        self.named, self._waivers = named, waivers
        self.counters: Counters | None = None
        self.error, self.interrupted = "", False
        self._reports: list[dict[str, Any]] = []
        self._warnings: list[dict[str, Any]] = []
        self._unlisted: dict[str, int] = {}
        self._waived: dict[str, int] = {}
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
        from tilewright.emulator.checks.reporting.rules import ERRORS

        rule = ERRORS.get(kind)
        found = {"kind": kind, "message": message, "locations": locations, "threads": threads}
        stated = {"rule": rule.sentence if rule else message, "section": rule.section if rule else None}
        self.add(asynchrony, {**found, "address": address, "more": 0, **stated})

    def add_all(self, asynchrony: Asynchrony, reports: "Reports") -> None:
        """Add what the checks of a device reported, and what they did not keep."""
        for report in reports:
            self.add(asynchrony, report.as_dict())
        for report in reports.warnings:
            self.add(asynchrony, report.as_dict(), self._warnings)
        for counts, of_run in ((self._unlisted, reports.unlisted), (self._waived, reports.waived)):
            counts.update({key: max(counts.get(key, 0), number) for key, number in of_run.items()})

    def add(self, asynchrony: Asynchrony, report: dict[str, Any], reports: list[dict[str, Any]] | None = None) -> None:
        """Add a finding, or the order to an earlier finding of this kind on the same lines."""
        from tilewright.emulator.errors import lines_of

        reports = self._reports if reports is None else reports
        lines = [line for location in report["locations"] for line in lines_of(location)]
        if waivers := [str(waiver) for waiver in self._waivers if waiver.covers(report["kind"], lines)]:
            self._waived.update({waiver: max(self._waived.get(waiver, 0), 1) for waiver in waivers})
            return
        report = {**report, "locations": list(report["locations"])}
        report |= {key: self.named(report[key]) for key in ("message", "rule")}
        same = report["kind"], report["rule"], *map(lines_of, report["locations"])
        for earlier in reports:
            if same == (earlier["kind"], earlier["rule"], *map(lines_of, earlier["locations"])):
                earlier["more"] = max(earlier["more"], report["more"])
                if str(asynchrony) not in earlier["schedules"]:
                    earlier["schedules"].append(str(asynchrony))
                return
        reports.append({**report, "schedules": [str(asynchrony)]})

    def result(self) -> CheckResult:
        """The findings so far."""
        counters, gaps = self.counters, self.coverage.gaps()
        counted = _not_counted() if counters is None else {
            "totals": counters.as_dict(),
            "by_line": {line: counts.as_dict() for line, counts in counters.by_line.items()},
            "by_line_inclusive": {line: counts.as_dict() for line, counts in counters.by_line_inclusive.items()},
        }  # fmt: skip
        return CheckResult(
            self.kernel,
            self.product,
            self.config,
            self.sms,
            verified=None if self.error and not self._reports else not self._reports,
            error=self.error,
            interrupted=self.interrupted,
            reports=self._reports,
            unlisted=self._unlisted,
            warnings=self._warnings,
            waived=self._waived,
            unused_waivers=[] if self.error else [each for each in map(str, self._waivers) if each not in self._waived],
            counters=counted,
            coverage={} if gaps is None else {"summary": gaps.summary(), **gaps.as_dict()},
            schedules=self._schedules,
        )
