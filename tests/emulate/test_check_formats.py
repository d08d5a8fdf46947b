"""`check --format`: SARIF with rules, places and relative URIs, and GitHub's annotations, escaped as GitHub asks."""

import json
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.commands import in_json, invoke
from tilewright.checking.result import CheckResult
from tilewright.cli.check.formats import github
from tilewright.emulator.checks.reporting.rules import ERRORS, RULES

pytestmark = pytest.mark.planted_fault

RACE = """__device__ void publish(int* x) { x[threadIdx.x ^ 32] = 2; }
extern "C" __global__ void race(int* x) {
  x[threadIdx.x] = 1;
  publish(x);
}
"""
LAUNCH = ("--block", 64, "--arg", "x=s32[64]", "--schedules", 0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my kernels").mkdir()
    (tmp_path / "my kernels/race,1.cu").write_text(RACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sarif_of(*arguments, code):
    return json.loads(invoke("check", *arguments, "--format", "sarif", code=code).stdout)


def test_a_sarif_log_names_the_rule_and_the_places(folder):
    log = sarif_of("my kernels/race,1.cu", *LAUNCH, code=1)
    assert (log["version"], set(log)) == ("2.1.0", {"$schema", "version", "runs"})
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert {rule["id"] for rule in driver["rules"]} == {*RULES, *ERRORS, "ScheduleDependence"}
    for rule in driver["rules"]:
        assert rule["help"]["text"].startswith(rule["shortDescription"]["text"])
    (result,) = run["results"]
    rule = driver["rules"][result["ruleIndex"]]
    assert rule["id"] == result["ruleId"] == "race"
    assert rule["properties"]["section"] in rule["help"]["text"]
    assert result["level"] == "error"
    assert "writes address" in result["message"]["text"]
    lines = []
    for place in (*result["locations"], *result["relatedLocations"]):
        physical = place["physicalLocation"]
        assert physical["artifactLocation"] == {"uri": "my%20kernels/race%2C1.cu", "uriBaseId": "%SRCROOT%"}
        lines.append(physical["region"]["startLine"])
    assert sorted(lines) == [1, 3, 4]
    assert lines[-1] == 1
    root = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    assert Path(unquote(urlsplit(root).path)) == Path.cwd()
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_files_elsewhere_are_absolute(folder, monkeypatch):
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    (result,) = sarif_of("../my kernels/race,1.cu", *LAUNCH, code=1)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (folder / "my kernels/race,1.cu").resolve().as_uri()}


def test_clean_kernels_and_warnings(folder):
    (folder / "clean.cu").write_text(RACE.replace("publish(x);", ""))
    assert sarif_of("clean.cu", *LAUNCH, code=0)["runs"][0]["results"] == []
    assert invoke("check", "clean.cu", *LAUNCH, "--format", "github").stdout == ""


def test_annotations_are_escaped(folder):
    (line,) = invoke("check", "my kernels/race,1.cu", *LAUNCH, "--format", "github", code=1).stdout.splitlines()
    command, message = line.removeprefix("::").split("::", 1)
    kind, properties = command.split(" ", 1)
    assert kind == "error"
    named = dict(part.split("=") for part in properties.split(","))
    assert named["file"] == f"my kernels{os.sep}race%2C1.cu".replace(os.sep, "/")
    assert named["line"] in ("3", "4")
    assert named["title"] == "race in race"
    assert "%0A" in message
    assert "rule: two accesses" in message


def test_errors_of_the_check_are_annotated_too():
    ended = CheckResult("k: 1", error="100%\r\nof it")
    assert list(github([ended])) == ["::error title=k%3A 1::100%25%0D%0Aof it"]
    assert list(github([CheckResult("k", skipped="not taken")])) == ["::notice title=k::not taken"]
    warned = {"kind": "wgmma-serialization", "message": "slow", "locations": [], "rule": "a rule"}
    (line,) = github([CheckResult("k", warnings=[warned])])
    assert line == "::warning title=wgmma-serialization in k::slow%0Arule: a rule"


def test_json_by_either_name(folder):
    options = ("check", "my kernels/race,1.cu", *LAUNCH)
    assert json.loads(invoke(*options, "--format", "json", code=1).stdout) == in_json(*options, code=1)
    assert json.loads(invoke("check", "none.cu", "--format=json", code=2).stdout)["error"].startswith("none.cu cannot")
    assert json.loads(invoke("check", "./a.ptx", "--format", "json", "--nonsense", code=2).stdout)["error"]
    both = invoke(*options, "--json", "--format", "sarif", code=2)
    assert "--json and --format sarif are two formats: give one of them" in both.stderr
