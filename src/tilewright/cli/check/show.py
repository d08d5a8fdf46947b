"""The findings of a check, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import columns, console, counter_rows, line_table, paragraph, table

if TYPE_CHECKING:
    from tilewright.checking.result import CheckResult

MOST_ORDERS = 6
"""The schedules that are named; others are counted."""


def show(result: "CheckResult", lines: bool, given: bool = False) -> None:
    """Show one kernel; `lines`: with counters per source line; `given`: with fields of a Config that somebody gave."""
    from rich.markup import escape

    product = escape(result.product)
    if result.skipped:
        console().print(f"[bold]{result.kernel}[/bold]{product and f' {product}:'} {escape(result.skipped)}")
        return
    count = sum(1 + report["more"] for report in result.reports) + sum(result.unlisted.values())
    verdict = f"[red]{count} report{'s' * (count > 1)}[/red]" if count else "[green]clean[/green]"
    if notes := _notes(result):
        verdict += f", {notes}"
    if result.error:
        verdict = f"[yellow]ended early[/yellow], {verdict if count else 'nothing reported'} until then"
    console().print(f"[bold]{result.kernel}[/bold] {product} under {_orders(result.schedules)}: {verdict}")
    if result.config:
        origin = "on" if given else "as planned for"
        paragraph(f"{result.config}, {origin} the {result.sms} SMs that are emulated", 2)
    stated: set[str] = set()
    for report in result.reports:
        _show_report(report, stated)
        if report["more"]:
            console().print(f"    and {report['more']} more like it on these lines")
    for report in result.warnings:
        _show_report({**report, "kind": f"warning, {report['kind']}"}, stated)
    for waiver, number in result.waived.items():
        paragraph(f"waived by {waiver}: {number} report{'s' * (number > 1)}", 2)
    for kind, number in result.unlisted.items():
        console().print(f"  {kind}: and {number} more on other lines, which are not listed")
    if result.verified and (gaps := result.coverage.get("summary")):
        paragraph(f"not exercised: {gaps[0]}", 2)
        paragraph(gaps[1], 4)
    if result.registers is not None:
        _show_registers(result.registers)
    totals, by_line = result.counters["totals"], result.counters["by_line"]
    if totals:
        table("", counter_rows(totals))
        if lines:
            line_table(by_line)
            if all(line.startswith("PTX:") for line in by_line):
                paragraph("lines are those of the PTX: compile with -lineinfo for those of the source", 2)


def _orders(schedules: "Sequence[str]") -> str:
    """The names of some schedules, and how many others there are."""
    more = len(schedules) - MOST_ORDERS
    return ", ".join(schedules) if more < 2 else f"{', '.join(schedules[:MOST_ORDERS])} and {more} more"


def _notes(result: "CheckResult") -> str:
    """The numbers of warnings and of waived reports, if any."""
    numbers = {"warning": len(result.warnings), "waived report": sum(result.waived.values())}
    return ", ".join(f"{number} {what}{'s' * (number > 1)}" for what, number in numbers.items() if number)


def show_summary(results: "Sequence[CheckResult]", names: "Sequence[str]") -> None:
    """Show how many of the kernels of these names are clean, and the names of the others."""
    counts = {
        "clean": [result.kernel for result in results if result.verified],
        "reported": [result.kernel for result in results if result.verified is False],
        "ended early": [result.kernel for result in results if result.verified is None and result.error],
    }
    counts["not run"] = [name for name in names if not any(name in others for others in counts.values())]
    clean, *others = counts.items()
    parts = [
        f"{len(clean[1])} of {len(names)} clean",
        *(f"{what}: {', '.join(names)}" for what, names in others if names),
    ]
    paragraph("; ".join(parts), 0)


def _show_report(report: dict[str, Any], stated: set[str]) -> None:
    """Show a report; its rule is explained unless it is in `stated`, to which it is then added."""
    from tilewright.emulator.checks.reporting.rules import ERRORS

    message, *details = f"{report['kind']} ({_orders(report['schedules'])}): {report['message']}".splitlines()
    paragraph(message, 2)
    if report["section"] is not None:
        threads = report["threads"]
        if report["kind"] not in ERRORS or (threads and threads not in report["message"]):  # most errors say all that
            details += [f"at {location}" for location in report["locations"]]
            if report["locations"]:
                details[-len(report["locations"])] += f", by {threads}"
        if report["kind"] not in stated:
            details.append(f"rule: {report['rule']} (PTX ISA, {report['section']})")
            stated.add(report["kind"])
    for detail in details:
        paragraph(detail.strip(), 4)


def _show_registers(found: Sequence[dict[str, Any]]) -> None:
    """Show the registers of a thread at a line, an instruction after another."""
    if not found:
        paragraph("the thread does not execute the line", 2)
    for each in found:
        paragraph(each["instruction"], 2)
        rows = [
            (f"{how} {register['register']}", *_written(register))
            for how, registers in (("reads", each["read"]), ("writes", each["written"]))
            for register in registers
        ]
        columns(rows, indent=4, gap=2)


def _written(register: dict[str, Any]) -> tuple[str, str, str]:
    """A register's bits, and what these are as a floating-point number and as two halves."""
    if register["bits"] == 1:
        return str(register["value"]).lower(), "", ""
    number = register.get("f32", register.get("f64"))
    halves = ", ".join(_number(half) for half in register["f16"]) if "f16" in register else ""
    return (
        f"0x{register['value']:0{register['bits'] // 4}x}",
        "" if register["bits"] < 32 else f"f{register['bits']} {_number(number)}",
        f"f16 {halves}" if halves else "",
    )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"
