"""The ends of commands: closed pipes, interrupts before a command begins, numbers that nothing can hold."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.commands import error
from tilewright.jit.compile import INSTALL

ONES = "1" * 400


def run(*arguments, before="", **options):
    """A process of the command line, after some Python."""
    code = f"import sys\n{before}\nsys.argv = ['tilewright', *{list(map(str, arguments))!r}]\n"
    code += "from tilewright.__main__ import main\nmain()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", ONES, 1, 1), ("run", 1, ONES, 1, "--backend", "emulator"), ("check", "simt", 1, 1, ONES),
        ("check", "all", ONES, 1, 1), ("ladder", "--shape", ONES, "--backend", "emulator"),
        ("ladder", "--shape", f"1,{'1' * 5000},1"), ("inspect", "simt", "--problem", f"1,1,{'1' * 5000}"),
    ],
)  # fmt: skip
def test_an_extent_that_no_array_has_is_refused(arguments):
    message = error(*arguments)
    assert "no array" in message
    assert len(message) < 200


INTERRUPTING = """
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("name", ["typer", "tilewright.cli", "rich", "tilewright.checking.product", "numpy"])
def test_an_interrupt_before_a_command_begins_is_one_line(name):
    done = run("run", 8, 8, 8, "--json", before=INTERRUPTING.format(name=name))
    assert done.returncode == 130
    assert json.loads(done.stdout) == {"error": "interrupted"}
    assert done.stderr == "tilewright: interrupted\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the words are a POSIX shell's")
@pytest.mark.parametrize(
    ("arguments", "shell", "code"),
    [
        ("run 8 8 8", ">&-", 2),
        ("--help", ">&-", 2),
        ("run 8 8 8", ">/dev/full", 2),
        ("run 8 8 8", "| true; exit ${PIPESTATUS[0]}", 141),
        ("run 8 8 8 --json", "| true; exit ${PIPESTATUS[0]}", 141),
        ("check --help", "| true; exit ${PIPESTATUS[0]}", 141),
        ("inspect simt", "| true; exit ${PIPESTATUS[0]}", 141),
    ],
)
def test_a_closed_output_is_no_wrong_product(arguments, shell, code):
    # The reader has gone before anything is written.
    late = f"{sys.executable} -c 'import time; time.sleep(0.3)'; exec {sys.executable} -m tilewright {arguments}"
    words = f"({late}) {shell}" if "|" in shell else f"{sys.executable} -m tilewright {arguments} {shell}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if code == 2:
        assert done.stderr.startswith("tilewright: ")
        assert done.stderr.count("\n") == 1


def test_doctor_says_how_to_install_the_compiler():
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": os.devnull}
    done = run("doctor", "--json", before="sys.modules['cuda.bindings.nvrtc'] = None", env=environment)
    assert done.returncode == 1
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert findings["self test"]["status"] == "fail"
    for name in ("NVRTC", "self test"):
        assert findings[name]["remedy"].startswith(INSTALL[13])


def test_what_installs_the_compiler_is_what_tilewright_depends_on():
    """The packages of the extras: tilewright itself need not be on a registry."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for major, command in INSTALL.items():
        wanted = {re.match(r"[\w-]+", each)[0] for each in project["optional-dependencies"][f"cu{major}"]}
        assert set(re.findall(r"[a-z][\w-]+", command.removeprefix("pip install"))) == wanted
