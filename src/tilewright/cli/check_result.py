"""What `tilewright check` finds: one kernel under every schedule, with reports and counters."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tilewright.cli.output import console, counter_rows, line_table, paragraph, progress, table

if TYPE_CHECKING:
    import numpy as np

    from tilewright.emulator import Counters, Device

    Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
    Run: TypeAlias = Callable[[], tuple[dict[str, Array], Counters | None]]

_SOURCE_LINE = re.compile(r"[\w/.+-]+\.\w+:\d+")


@dataclass(frozen=True, slots=True)
class Schedule:
    """When asynchronous copies and multiplications complete; see `tilewright.emulator.Device`."""

    asynchrony: Literal["eager", "lazy", "random"]
    seed: int = 0

    def __str__(self) -> str:
        return f"random({self.seed})" if self.asynchrony == "random" else self.asynchrony

    def options(self, progress: Callable[[float], None]) -> dict[str, Any]:
        """Of a Device, or a backend, that checks and counts everything under this schedule."""
        return {**dataclasses.asdict(self), "count_memory": True, "checks": True, "progress": progress}


def schedules_of(count: int, seed: int) -> list[Schedule]:
    """Eager, lazy, and so many random ones."""
    return [Schedule("eager"), Schedule("lazy"), *(Schedule("random", seed + number) for number in range(count))]


@dataclass(frozen=True, slots=True)
class Part:
    """Which of how many kernels that are checked one after the other, the first being 0."""

    number: int = 0
    of: int = 1

    def share(self, part: float) -> float:
        """How far all of them are where so much of this one is done."""
        return (self.number + part) / self.of


WHOLE = Part()
"""The only kernel."""


@dataclass(slots=True)
class Checked:
    """What was found about one kernel; where nothing ran, `verified` is None and `skipped` says why.

    reports: a kind, the rule, locations and the schedules under which it was found, each once, and always the same
    keys. error: why the check ended before its time, if it did; interrupted: whether that was Ctrl-C. named: puts the
    names of arrays behind the addresses in a sentence.
    """

    kernel: str
    product: str = ""
    config: str = ""
    verified: bool | None = None
    skipped: str = ""
    error: str = ""
    interrupted: bool = False
    named: Callable[[str], str] = str
    reports: list[dict[str, Any]] = field(default_factory=list)
    counters: "Counters | None" = None
    schedules: list[str] = field(default_factory=list)

    def report(
        self,
        schedule: Schedule,
        kind: str,
        message: str,
        locations: Sequence[str] = (),
        threads: str | None = None,
        address: int | None = None,
    ) -> None:
        """Add a finding that is no report of the device; of an error, with its rule."""
        from tilewright.emulator.checks.rules import ERRORS

        rule = ERRORS.get(kind)
        found = {"kind": kind, "message": message, "locations": locations, "threads": threads}
        stated = {"rule": rule.sentence if rule else message, "section": rule.section if rule else None}
        self.add(schedule, {**found, "address": address, **stated})

    def add(self, schedule: Schedule, report: dict[str, Any]) -> None:
        """Add a finding, or the schedule to an earlier finding of this kind at the same places."""
        report = {**report, "locations": list(report["locations"])}
        report |= {key: self.named(report[key]) for key in ("message", "rule")}
        for earlier in self.reports:
            if all(earlier[key] == report[key] for key in ("kind", "rule", "locations")):
                if str(schedule) not in earlier["schedules"]:
                    earlier["schedules"].append(str(schedule))
                return
        self.reports.append({**report, "schedules": [str(schedule)]})

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        hidden = {"interrupted", "named"} | (set() if self.error else {"error"})
        fields = [item.name for item in dataclasses.fields(self) if item.name not in hidden]
        plain = {name: getattr(self, name) for name in fields}
        counters = self.counters
        plain["counters"] = {"totals": {}, "by_line": {}, "by_line_inclusive": {}} if counters is None else {
            "totals": counters.as_dict(),
            "by_line": {line: counts.as_dict() for line, counts in counters.by_line.items()},
            "by_line_inclusive": {line: counts.as_dict() for line, counts in counters.by_line_inclusive.items()},
        }  # fmt: skip
        return plain

    def show(self, lines: bool) -> None:
        """Tell people; `lines`: with counters per source line."""
        from rich.markup import escape

        product = escape(self.product)
        if self.skipped:
            console().print(f"[bold]{self.kernel}[/bold]{product and f' {product}:'} {escape(self.skipped)}")
            return
        count = len(self.reports)
        verdict = f"[red]{count} report{'s' * (count > 1)}[/red]" if count else "[green]clean[/green]"
        if self.error:
            verdict = f"[yellow]ended early[/yellow], {verdict if count else 'nothing reported'} until then"
        console().print(f"[bold]{self.kernel}[/bold] {product} under {', '.join(self.schedules)}: {verdict}")
        if self.config:
            paragraph(self.config, 2)
        stated: set[str] = set()
        for alike in _grouped(self.reports):
            _show_report(alike[0], stated)
            if len(alike) > 1:
                console().print(f"    and {len(alike) - 1} more like it on these lines")
        if self.counters is not None:
            table("", counter_rows(self.counters.as_dict()))
            if lines:
                line_table({line: counts.as_dict() for line, counts in self.counters.by_line.items()})
                if all(line.startswith("PTX:") for line in self.counters.by_line):
                    paragraph("lines are those of the PTX: compile with -lineinfo for those of the source", 2)


def _grouped(reports: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Reports of one kind at the same source lines, as an unrolled loop gives them."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, report in enumerate(reports):
        lines = _SOURCE_LINE.findall(" ".join(report["locations"])) or [str(number)]
        groups.setdefault((report["kind"], *lines), []).append(report)
    return groups.values()


def _show_report(report: dict[str, Any], stated: set[str]) -> None:
    """Tell people about a report; a rule that is in `stated` is known, any other is then."""
    from tilewright.emulator.checks.rules import ERRORS

    message, *details = f"{report['kind']} ({', '.join(report['schedules'])}): {report['message']}".splitlines()
    paragraph(message, 2)
    if report["section"] is not None:
        if report["kind"] not in ERRORS:  # whose messages say where and by whom
            details += [f"at {location}" for location in report["locations"]]
            if report["locations"]:
                details[-len(report["locations"])] += f", by {report['threads']}"
        if report["kind"] not in stated:
            details.append(f"rule: {report['rule']} (PTX ISA, {report['section']})")
            stated.add(report["kind"])
    for detail in details:
        paragraph(detail.strip(), 4)


def run_schedules(
    result: Checked,
    schedules: Sequence[Schedule],
    prepare: "Callable[[Schedule, dict[str, Any]], tuple[Device, Run]]",
    limit: Callable[[float], None] = lambda done: None,
    part: Part = WHOLE,
) -> None:
    """Run a kernel under every schedule and add what is found, differences of results included, to `result`.

    Ctrl-C ends it with what was found until then.

    prepare: from a schedule and the options of its device to the device, and what runs the kernel there and returns its
    results by name and its counters. limit: called with the share of the check that is done; ends it with TimeoutError.
    part: of a check of several kernels, for the bar.

    Raises:
        EmulatorError: where the kernel or its launch is nothing that the emulator takes.
    """
    from tilewright.emulator.errors import EmulatorError, LaunchError, PtxSyntaxError, UnsupportedInstruction

    first: tuple[Schedule, dict[str, Array]] | None = None
    done = 0.0
    which = f", {part.number + 1} of {part.of}" if part.of > 1 else ""
    with progress(f"checking {result.kernel}{which}", part.share(0) or None) as report_progress:
        for number, schedule in enumerate(schedules):

            def share(fraction: float, number: int = number) -> None:
                nonlocal done
                done = (number + fraction) / len(schedules)
                report_progress(part.share(done))
                limit(done)

            result.schedules.append(str(schedule))
            device, run = prepare(schedule, schedule.options(share))
            try:
                results, counters = run()
            except (KeyboardInterrupt, TimeoutError) as end:
                result.interrupted = isinstance(end, KeyboardInterrupt)
                reason = (
                    f"interrupted under {schedule}, {done:.1%} of the check done" if result.interrupted else str(end)
                )
                result.error = "\n  ".join((reason, *getattr(end, "__notes__", ())))
                break
            except (LaunchError, PtxSyntaxError, UnsupportedInstruction):
                raise
            except EmulatorError as error:
                if not error.reported:
                    kind, message = type(error).__name__, str(error)
                    result.report(schedule, kind, message, error.locations, error.threads, error.address)
                result.counters = result.counters or error.counters
                continue
            finally:
                for report in device.reports:
                    result.add(schedule, report.as_dict())
            if first is None:
                first, result.counters = (schedule, results), counters
            else:
                for difference in _differences(results, first[1], str(first[0])):
                    result.report(schedule, "ScheduleDependence", difference)
    result.verified = None if result.error and not result.reports else not result.reports


def _differences(results: "dict[str, Array]", expected: "dict[str, Array]", schedule: str) -> "Iterable[str]":
    """Sentences about the results that differ, bit for bit, from those of another schedule."""
    import numpy as np

    for name, array in results.items():
        here, there = (np.frombuffer(value.tobytes(), f"V{array.itemsize}") for value in (array, expected[name]))
        different = np.flatnonzero(here != there)
        if different.size:
            place = tuple(int(index) for index in np.unravel_index(different[0], array.shape))
            yield (
                f"{name} differs from that of {schedule} in {different.size:,} of {array.size:,} elements, first at "
                f"{place}, {array[place]} instead of {expected[name][place]}: the result depends on when asynchronous "
                "operations complete"
            )
