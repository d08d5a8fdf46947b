"""A record of the microbenchmark beside the model."""

import json

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
