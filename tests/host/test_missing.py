"""What a machine lacks, or has set wrongly, is said in a line that tells what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import in_json

ROOT = Path(__file__).parents[2]


def test_doctor_looks_at_every_directory_of_the_cache(tmp_path, monkeypatch):
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.mkdir()
    (there / "0.kernel").write_bytes(bytes(1_500_000))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(there))
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", f"{there}:{missing}")
    extra, gone, own = (finding for finding in in_json("doctor")["findings"] if "cache" in finding["name"])
    assert extra["detail"] == own["detail"] == f"{there}: 1 kernel, 1.5 MB"
    assert (extra["status"], gone["status"], own["status"]) == ("ok", "warn", "ok")
    assert str(missing) in gone["detail"]
    assert "TILEWRIGHT_CACHE_PATH" in gone["remedy"]


@pytest.mark.parametrize("value", ["abc", "nan", "0"])
def test_doctor_blames_an_environment_variable_that_is_wrong_and_exits_with_1(value):
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "doctor", "--json"],
        env={**os.environ, "TILEWRIGHT_EMULATOR_SECONDS": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert record["ok"] is False
    (finding,) = (finding for finding in record["findings"] if finding["status"] == "fail")
    assert finding["name"] == "self test"
    assert finding["remedy"] == "correct the environment variable TILEWRIGHT_EMULATOR_SECONDS, or unset it"


@pytest.mark.parametrize(("lacking", "arguments"), [("typer", "doctor"), ("numpy", "run 8 8 8"), ("rich", "doctor")])
def test_a_package_that_is_missing_is_one_line(tmp_path, lacking, arguments):
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules[{lacking!r}] = None")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *arguments.split()],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"tilewright: the package {lacking!r} is not installed for {sys.executable}: ")
    assert "pip install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_benchmark_of_host_time_says_what_it_needs_in_one_line():
    code = "import sys, runpy; sys.modules['torch'] = None; sys.argv[1:] = [];"
    code += "runpy.run_module('tilewright.bench.host_time', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("timing needs torch and an NVIDIA GPU")
    assert done.stderr.count("\n") == 1


def test_requiring_a_gpu_that_is_not_there_is_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(ROOT / "tests/gpu"), "--require-gpu"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no GPU is usable" in done.stderr
    assert (done.stdout + done.stderr).strip().count("\n") == 0
