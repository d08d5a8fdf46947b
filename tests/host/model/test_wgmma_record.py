"""A record of the microbenchmark beside the model."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app


def record(tmp_path, **changes):
    case = {"kind": "bf16:K:K", "n": 64, "warpgroups": 1, "median": 40.5, "least": 40, "most": 41, "model": 32}
    cases = [case, {**case, "warpgroups": 2, "median": 33.25}, {**case, "kind": "bf16:registers:K", "median": 32.5}]
    content = {"command": "tilewright bench micro wgmma", "gpu": "H200", "cases": cases, **changes}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content))
    return str(path)


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["model", "wgmma", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_the_table_shows_the_least_of_what_was_measured(tmp_path):
    path = record(tmp_path)
    rows = invoke("--record", path).stdout.splitlines()
    assert next(row.split() for row in rows if row.startswith("64 "))[5] == "33.25"
    one = json.loads(invoke("--record", path, "--n", "64", "--source", "registers", "--json").stdout)
    assert one["times"][0]["measured"] == 32.5
    assert "measured" in invoke("--record", path, "--n", "64").stdout


def test_each_type_and_way_of_storage_has_a_column(tmp_path):
    path = record(tmp_path)
    rows = [row.split() for row in invoke("--record", path, "--by-kind").stdout.splitlines()]
    assert rows[0] == ["n", "clocks", "bf16:K:K"]
    assert ["64", "32", "33.25"] in rows
    whole = str(Path(__file__).parents[3] / "results" / "wgmma_clocks_h200.json")
    heading, *_, last = invoke("--record", whole, "--by-kind").stdout.splitlines()
    assert heading.split()[2:] == ["bf16:K:K", "bf16:K:MN", "bf16:MN:K", "bf16:MN:MN", "e4m3:K:K"]
    assert all(abs(float(clocks) - 128) < 0.06 for clocks in last.split()[1:])
    assert "--by-kind is about measurements: give --record" in invoke("--by-kind", code=2).stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "H20"}, "is of H20: give one of H200"),
        ({"gpu": None}, "is of the emulator"),
        ({"command": "tilewright bench"}, "is not a record, at command"),
        ({"cases": [{"kind": "bf16:K:K", "n": "64", "warpgroups": 1, "median": 1.0}]}, "cases.0.n"),
    ],
)
def test_records_of_something_else(tmp_path, changes, said):
    assert said in invoke("--record", record(tmp_path, **changes), code=2).stderr
