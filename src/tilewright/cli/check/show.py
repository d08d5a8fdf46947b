"""The findings of a check, for people."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console, counter_rows, line_table, paragraph, table

if TYPE_CHECKING:
    from tilewright.checking.result import CheckResult

_SOURCE_LINE = re.compile(r"[\w/.+-]+\.\w+:\d+")


def show(result: "CheckResult", lines: bool) -> None:
    """Show one kernel; `lines`: with counters per source line."""
    from rich.markup import escape

    product = escape(result.product)
    if result.skipped:
        console().print(f"[bold]{result.kernel}[/bold]{product and f' {product}:'} {escape(result.skipped)}")
        return
    count = len(result.reports)
    verdict = f"[red]{count} report{'s' * (count > 1)}[/red]" if count else "[green]clean[/green]"
    if result.error:
        verdict = f"[yellow]ended early[/yellow], {verdict if count else 'nothing reported'} until then"
    console().print(f"[bold]{result.kernel}[/bold] {product} under {', '.join(result.schedules)}: {verdict}")
    if result.config:
        paragraph(result.config, 2)
    stated: set[str] = set()
    for alike in _grouped(result.reports):
        _show_report(alike[0], stated)
        if len(alike) > 1:
            console().print(f"    and {len(alike) - 1} more like it on these lines")
    totals, by_line = result.counters["totals"], result.counters["by_line"]
    if totals:
        table("", counter_rows(totals))
        if lines:
            line_table(by_line)
            if all(line.startswith("PTX:") for line in by_line):
                paragraph("lines are those of the PTX: compile with -lineinfo for those of the source", 2)


def show_summary(results: "Sequence[CheckResult]") -> None:
    """Show how many of several kernels are clean, and the names of the others."""
    counts = {
        "clean": [result.kernel for result in results if result.verified],
        "reported": [result.kernel for result in results if result.verified is False],
        "not run": [result.kernel for result in results if result.verified is None],
    }
    clean, *others = counts.items()
    parts = [
        f"{len(clean[1])} of {len(results)} clean",
        *(f"{what}: {', '.join(names)}" for what, names in others if names),
    ]
    paragraph("; ".join(parts), 0)


def _grouped(reports: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """The reports grouped by kind and source lines, since an unrolled loop gives several."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, report in enumerate(reports):
        lines = _SOURCE_LINE.findall(" ".join(report["locations"])) or [str(number)]
        groups.setdefault((report["kind"], *lines), []).append(report)
    return groups.values()


def _show_report(report: dict[str, Any], stated: set[str]) -> None:
    """Show a report; its rule is explained unless it is in `stated`, to which it is then added."""
    from tilewright.emulator.checks.rules import ERRORS

    message, *details = f"{report['kind']} ({', '.join(report['schedules'])}): {report['message']}".splitlines()
    paragraph(message, 2)
    if report["section"] is not None:
        if report["kind"] not in ERRORS:  # messages of errors name places and threads themselves
            details += [f"at {location}" for location in report["locations"]]
            if report["locations"]:
                details[-len(report["locations"])] += f", by {report['threads']}"
        if report["kind"] not in stated:
            details.append(f"rule: {report['rule']} (PTX ISA, {report['section']})")
            stated.add(report["kind"])
    for detail in details:
        paragraph(detail.strip(), 4)
