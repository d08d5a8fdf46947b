"""The command line as a whole: help, errors, exit codes, and `tilewright doctor`."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import tilewright
from support.commands import error, in_json, invoke
from tilewright.checking.product import Product
from tilewright.cli import app

COMMANDS = ("run", "explain", "report", "ladder", "bench", "tune", "compile", "inspect", "check", "kernels", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_that_the_command_takes(command):
    text = invoke(command, "--help").stdout
    lines: list[str] = []
    for line in text.partition("Examples:")[2].partition("╭")[0].splitlines():
        if line.startswith("   "):
            lines.append(line)
        elif line.strip() and lines:  # the rest of a long one
            lines[-1] = f"{lines[-1].rstrip()} {line.strip()}"
    examples = [shlex.split(line)[1:] for line in lines if "  tilewright " in line]
    assert len(examples) > 1
    for name, *words in examples:
        assert name == command
        group: Any = typer.main.get_command(app)
        group.commands[command].make_context(command, words)  # refuses what it does not take
    assert "--json" in text


def test_doctor_multiplies_and_finds_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    record = in_json("doctor")
    assert record["ok"] is True
    by_name = {finding["name"]: finding for finding in record["findings"]}
    assert by_name["self test"]["status"] == "ok"
    assert str(tmp_path) in by_name["cache"]["detail"]
    assert all(finding["remedy"] for finding in record["findings"] if finding["status"] != "ok")


@pytest.mark.parametrize("command", ["run", "explain", "check", "inspect", "bench", "tune", "compile"])
def test_only_commands_with_suites_take_types_from_them(command):
    group: Any = typer.main.get_command(app)
    parameters = {each.name: each for each in group.commands[command].params}
    assert ("a suite's" in parameters["dtype"].help) == ("suite" in parameters)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", 8, 8), ["M N K='8 8' is not a shape: write M,N,K of natural numbers"]),
        (("explain", 8, 8, -1), ["M N K='8 8 -1' is not a shape: write M,N,K of natural numbers"]),
        (("tune", "--shape", 8, 8, 8), ["unexpected extra argument(s) (8): a shape is one word, --shape M,N,K"]),
        (("bench", "8,9x10"), ["SUITE='8,9x10' is a shape and no suite: write --shape 8,9x10"]),
        (
            ("run", 8, 8, 8, "--kernel", "nope"),
            ["kernel='nope' does not exist: use 'auto' or one of wgmma, mma"],
        ),
        (("run", 8, 8, 8, "--kernel", "mma", "--dtype", "fp32", "--backend", "emulator"), ["mma", "fp32"]),
        (("run", 6144, 6144, 6144, "--backend", "emulator"), ["TILEWRIGHT_EMULATOR_SECONDS"]),
        (("check", "mma", 6144, 6144, 6144), ["TILEWRIGHT_EMULATOR_SECONDS"]),
        (("run", 10**9, 10**9, 1), ["1000000000x1000000000x1 bf16 nt", "memory", "smaller"]),
        (("check", "simt", 10**6, 10**6, 10), ["1000000x1000000x10 fp32 nt", "memory", "smaller"]),
        (
            ("inspect", "nope"),
            ["KERNEL='nope' does not exist: use a file (FILE.cu, ./FILE), M N K or one of wgmma, mma"],
        ),
        (
            ("inspect", "WGMM"),
            [
                "KERNEL='WGMM' does not exist: did you mean wgmma",
                "? Use a file (FILE.cu, ./FILE), M N K or one of wgmma, mma",
            ],
        ),
        (("inspect", "mma", "--problem", "4096,4096"), ["--problem", "M,N,K"]),
        (("inspect", "mma", "--arch", "sm_75"), ["--arch", "sm_90a"]),
        (("inspect", "wgmma", "--arch", "sm_80"), ["sm_80"]),
        (("inspect", "wgmma", "--arch", "sm_90"), ["needs sm_90a"]),
        (("inspect", "wgmma", "--arch", "sm_100"), ["needs sm_90a"]),
        (("inspect", "mma", "--dtype", "fp32"), ["fp32"]),
        (
            ("check", "nope"),
            [
                "'nope' does not exist: use all, ladder,",
                "FILE.ptx, FILE.cu, FILE.py:NAME, ./FILE) or one of wgmma, mma",
            ],
        ),
        (("check", "sim"), ["KERNEL='sim' does not exist: did you mean simt", "? Use all,", "FILE.cu", "one of"]),
        (("check", "kernel.ptx"), ["kernel.ptx cannot be read", "No such file"]),
        (("check", "kernel.ptx", 8, 8, 8), ["M N K is for a product", "--arg"]),
        (("check", "mma", "--grid", 4, "--shared-bytes", 64), ["--shared-bytes, --grid", "'mma'", ".ptx"]),
    ],
)
def test_what_cannot_be_done_is_one_message_and_exit_code_2(arguments, words):
    message = error(*arguments)
    assert message.startswith("tilewright: ")
    assert all(word in message for word in words)


def test_a_gpu_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 0)
    assert "doctor" in error("run", 8, 8, 8, "--backend", "gpu")


@pytest.mark.parametrize(
    "words", [("run", 8, 8, 8), ("explain", 8, 8, 8), ("report", 8, 8, 8), ("check", "mma"), ("kernels",)]
)
def test_an_unknown_gpu_is_answered_with_those_that_kernels_know(words):
    hopper = "H100-SXM, H100-PCIe, H200, H800, H20"
    any_type = ", B200" * (words[0] in ("check", "kernels"))  # which fp32 runs on
    said = f"tilewright: --gpu='X' is unknown: use A100, RTX-4090, {hopper}{any_type}\n"
    assert error(*words, "--gpu", "X") == said


def test_interrupting_says_so_and_exits_with_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Product, "operands", interrupted)
    done = invoke("run", 8, 8, 8, "--backend", "emulator", code=130)
    assert done.stderr == "tilewright: interrupted\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", [("--nope",), ("--layout", "uu")])
def test_usage_errors_are_json_too(command, words):
    done = invoke(command, *words, "--json", code=2)
    (message,) = json.loads(done.stdout).values()
    assert done.stdout == json.dumps({"error": message}) + "\n"
    assert done.stderr == f"tilewright: {message}\n`tilewright {command} --help` says what it takes\n"
    assert invoke(command, *words, code=2).stdout == ""


def test_doctor_looks_at_every_package_that_is_needed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {re.split("[<>=]", each)[0] for each in project["dependencies"]}
    assert needed <= {finding["name"] for finding in in_json("doctor")["findings"]}


def test_a_bad_value_of_an_option_is_named_in_our_words():
    message = error("run", 5, 5, 5, "--dtype", "fp64")
    assert message.startswith("tilewright: Invalid value for '--dtype': 'fp64' is not one of 'bf16'")


def test_what_cannot_be_done_is_json_too():
    assert in_json("explain", 8, 8, 0, code=2)["error"].startswith("M N K are (8, 8, 0), so there are no sums: give ")
    assert "'walk' does not exist: use " in in_json("walk", code=2)["error"]
    assert "--json" in in_json(code=2)["error"]


def test_a_defect_is_not_disguised_as_bad_input(monkeypatch):
    def broken(*_):
        raise KeyError("tile_m")

    monkeypatch.setattr(Product, "operands", broken)
    done = CliRunner().invoke(app, ["run", "8", "8", "8", "--backend", "emulator"])
    assert isinstance(done.exception, KeyError)
    monkeypatch.setattr(Product, "resized", "no function")  # a TypeError, but of the interpreter's
    done = CliRunner().invoke(app, ["run", "8", "8", "8", "--backend", "emulator"])
    assert isinstance(done.exception, TypeError)


def test_running_out_of_memory_is_one_message(monkeypatch):
    monkeypatch.setattr(Product, "operands", lambda *_: np.empty(1 << 62, np.uint8))
    assert error("run", 8, 8, 8, "--backend", "emulator").count("\n") == 1


@pytest.mark.parametrize("position", range(3))
def test_a_negative_extent_is_refused(position):
    extents = [5, 5, 5]
    extents[position] = -1
    assert f"M N K='{' '.join(map(str, extents))}' is not a shape" in error("run", *extents)
    assert "--sead" in error("run", "--sead", 1)


def test_version():
    assert invoke("--version").stdout == f"tilewright {tilewright.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", ["--help", "run 0 4 4", "run 0 4 4 --json"])
def test_a_full_disk_is_one_message(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "tilewright: the output cannot be written: No space left on device\n"
