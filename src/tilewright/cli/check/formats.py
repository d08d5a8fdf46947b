"""The findings of a check for other programs: SARIF 2.1.0, and annotations of GitHub's workflows."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilewright import __version__

if TYPE_CHECKING:
    from tilewright.checking.result import CheckResult

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
ROOT = "%SRCROOT%"
"""The base of relative URIs, the current folder, by the name that SARIF's consumers know."""


def sarif(results: "Sequence[CheckResult]") -> dict[str, Any]:
    """A SARIF log with one run: the rules, and a result for each report and warning."""
    rules = _rules()
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    found = [
        _sarif_result(result, report, level, numbers)
        for result in results
        for level, reports in (("error", result.reports), ("warning", result.warnings))
        for report in reports
    ]
    ended = [result.error for result in results if result.error]
    notes = [{"level": "error", "message": {"text": error}} for error in ended]
    invocation = {"executionSuccessful": not ended, **({"toolExecutionNotifications": notes} if notes else {})}
    driver = {"name": "tilewright", "version": __version__, "informationUri": MANUAL, "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "originalUriBaseIds": {ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
                "results": found,
            }
        ],
    }


def github(results: "Sequence[CheckResult]") -> Iterator[str]:
    """Workflow commands, a line each, that GitHub shows at the lines of a pull request."""
    for result in results:
        for level, reports in (("error", result.reports), ("warning", result.warnings)):
            for report in reports:
                place = next(_places(result, report), None)
                parts = {"file": _shown(place[0]), "line": str(place[1])} if place else {}
                parts["title"] = f"{report['kind']} in {result.kernel}"
                properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in parts.items())
                text = "\n".join([report["message"], *report["locations"], f"rule: {report['rule']}"])
                yield f"::{level} {properties}::{_escaped(text)}"
        if result.error:
            yield f"::error title={_escaped(result.kernel, ':,')}::{_escaped(result.error)}"
        elif result.skipped:
            yield f"::notice title={_escaped(result.kernel, ':,')}::{_escaped(result.skipped)}"


def _rules() -> list[dict[str, Any]]:
    from tilewright.emulator.checks.reporting.rules import ERRORS, RULES

    rules = [
        {
            "id": kind,
            "shortDescription": {"text": rule.sentence},
            "help": {"text": f"{rule.sentence}.\nPTX ISA: {rule.section}"},
            "helpUri": MANUAL,
            "properties": {"section": rule.section},
            "defaultConfiguration": {"level": "warning" if rule.warning else "error"},
        }
        for kind, rule in {**RULES, **ERRORS}.items()
    ]
    same = "the result of a kernel must not depend on when asynchronous operations complete"
    return [*rules, {"id": "ScheduleDependence", "shortDescription": {"text": same}, "help": {"text": f"{same}."}}]


def _sarif_result(result: "CheckResult", report: dict[str, Any], level: str, numbers: dict[str, int]) -> dict[str, Any]:
    places = [_sarif_place(path, line) for path, line in _places(result, report)]
    found: dict[str, Any] = {
        "ruleId": report["kind"],
        "level": level,
        "message": {"text": report["message"]},
        "locations": places[:1],
        "properties": {
            "kernel": result.kernel,
            **{key: report[key] for key in ("threads", "schedules", "more") if report[key]},
        },
    }
    if report["kind"] in numbers:
        found["ruleIndex"] = numbers[report["kind"]]
    if places[1:]:
        found["relatedLocations"] = places[1:]
    return found


def _sarif_place(path: str, line: int) -> dict[str, Any]:
    inside = _shown(path)
    artifact = (
        {"uri": Path(inside).as_uri()}
        if os.path.isabs(inside)
        else {"uri": quote(os.fsencode(inside)), "uriBaseId": ROOT}
    )
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


def _places(result: "CheckResult", report: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The files and lines of a report: those of the kernel first, then those that were inlined there."""
    from tilewright.emulator.errors import lines_of

    lines = [lines_of(location) for location in report["locations"]]
    ordered = [each[0] for each in lines] + [line for each in lines for line in each[1:]]
    for line in dict.fromkeys(ordered):
        file, _, number = line.rpartition(":")
        path = result.files.get(file)
        if path is not None and int(number) > 0:
            yield path, int(number)


def _shown(path: str) -> str:
    """The path from the current folder, with slashes; absolute if it is elsewhere."""
    absolute = Path(os.path.abspath(path))
    here = Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else str(absolute)


def _escaped(text: str, also: str = "") -> str:
    """Text in a workflow command; `also`: characters that end a property. Source: GitHub's toolkit, command.ts."""
    for character in ("%", "\r", "\n", *also):
        text = text.replace(character, f"%{ord(character):02X}")
    return text
