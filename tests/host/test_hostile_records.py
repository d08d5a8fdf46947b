"""Records and suites with changed values: each is shown, or refused in a sentence, and never ends in a traceback."""

import copy
import json
import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.commands import error, in_json
from support.hostile import mutant
from tilewright.cli import app

RESULTS = Path(__file__).parents[2] / "results"
MUTANTS = 150 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 20
DRAWN = 10  # every so many mutants are drawn too, which takes longer


def small(record):
    """A record of a few parts, so that a change hits what is shown."""
    record = copy.deepcopy(record)
    for name in ("rungs", "products"):
        if name in record:
            record[name] = record[name][:2] + record[name][-1:]
    for rung in record.get("rungs", ()):
        rung.pop("counters", None)
    return record


@pytest.fixture(scope="module")
def counted():
    return in_json("ladder", "--backend", "emulator", "--shape", "32,32,16", "--rungs", "uncoalesced,simt,wgmma_basic")


@pytest.fixture
def original(kind, counted):
    files = {"timed ladder": "ladder_8192", "bench": "proof", "sweep": "wgmma_vs_cublas"}
    return small(json.loads((RESULTS / f"{files[kind]}.json").read_text()) if kind in files else counted)


def shown_or_refused(arguments):
    """Whether a command shows a record; otherwise it must have refused it in words."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], standalone_mode=True)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 2)
    return done.exit_code == 0


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", ["timed ladder", "counted ladder", "bench", "sweep"])
def test_a_changed_record_is_shown_or_refused(kind, original, tmp_path):
    command = "ladder" if "ladder" in kind else "bench"
    chosen, path, picture = random.Random(kind), tmp_path / "record.json", tmp_path / "picture.png"
    shown = 0
    for _ in range(MUTANTS):
        path.write_text(json.dumps(mutant(original, chosen)))
        good = shown_or_refused([command, path])
        assert shown_or_refused([command, path, "--json"]) is good
        if good and not shown % DRAWN:
            shown_or_refused([command, path, "--plot", picture])
        shown += good
    assert 0 < shown < MUTANTS


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "1" * 5000])
@pytest.mark.parametrize("kind", ["timed ladder", "bench"])
def test_what_is_no_number_of_json_is_refused_wherever_it_stands(kind, text, original, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"more": "here", **original}).replace('"here"', text))
    assert "is not JSON" in error(kind.split()[-1], path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sweep_h200", "one of another command: use `python tools/calibrate.py {path}` to see it, or name a file"),
        ("gemv_h200", "what `python tools/gemv_sweep.py gemv.json"),
        ("calibration_h200", "one of another command: use `python tools/calibrate.py {path}` to see it"),
        ("host_time", "what `python -m tilewright.bench.host_time --samples 25` wrote, which no command shows: name a"),
        ("emulator_proof", "not a record: command is missing: name a file that `tilewright bench --output` wrote"),
    ],
)
def test_a_record_of_another_program_is_named(name, said):
    path = RESULTS / f"{name}.json"
    assert f"record {path} is {said.format(path=path)}" in error("bench", path)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_records_are_refused(counted, tmp_path, depth):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**counted, "more": "here"}).replace('"here"', "[" * depth + "]" * depth))
    assert f"record {path} " in error("ladder", path)


def test_the_wrong_part_of_a_record_is_named(counted, tmp_path):
    path = tmp_path / "record.json"
    changed = copy.deepcopy(counted)
    changed["rungs"][1]["rereads"] = "many"
    path.write_text(json.dumps(changed))
    assert "at emulator.rungs.1.shown.rereads: Input should be a valid number" in error("ladder", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"summary = '\xff'", "can't decode byte 0xff"),
        (b"shapes = " + b"[" * 100_000, "is not TOML"),
        (b"[[shapes]]\nm = %b\nn = 1\nk = 1\n" % str(list(range(1, 20_000))).encode(), "name at most 10000"),
    ],
)
def test_a_suite_that_is_none_is_refused(content, message, tmp_path):
    path = tmp_path / "suite.toml"
    path.write_bytes(content)
    assert message in error("bench", path)
