"""The commands that keep the code in order: CI's, those before a commit, and their versions."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTS = re.findall(r"^(lint-\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

MAKE = """#!/bin/sh
for goal; do :; done  # the last word
case "$goal" in
  test) echo "{summary}"; exit {status} ;;
  test-docs) echo "4 passed in 1.0s"; exit 0 ;;
  {failing}) exit 2 ;;
  lint-* | test-wheel) exit 0 ;;
esac
exit 3
"""


@pytest.mark.parametrize(
    ("summary", "status", "failing", "counts"),
    [
        ("30 passed, 2 skipped in 4.2s", 0, "nothing", (len(LINTS) + 35, 0)),
        ("2 failed, 30 passed, 1 error in 4.2s", 1, "nothing", (len(LINTS) + 35, 3)),
        ("30 passed in 4.2s", 0, "lint-types", (len(LINTS) - 1 + 35, 1)),
        ("no tests ran", 2, "lint-*", (5, len(LINTS))),
    ],
)
def test_ci_counts_lints_and_tests_in_its_last_line(tmp_path, summary, status, failing, counts):
    """The wheel counts as one, and 4 are the tests of the site."""
    for name, text in (("make", MAKE.format(summary=summary, status=status, failing=failing)), ("chromium", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run([bash, ROOT / ".ci/run"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "{} passed, {} failed".format(*counts)
    assert (done.returncode == 0) is (counts[1] == 0 and status == 0)


def test_ci_and_the_hooks_run_every_lint():
    assert LINTS
    ci = re.search(r"for check in (.*); do", (ROOT / ".ci/run").read_text())
    assert ci is not None
    assert ci[1].split() == [*LINTS, "test-wheel"]
    hooks = re.findall(r"entry: make --no-print-directory (\S+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.M)
    assert hooks == LINTS


def test_the_tools_are_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tools = project["optional-dependencies"]["dev"]
    assert len(tools) > 5
    assert [tool for tool in tools if not re.fullmatch(r"[\w-]+==[\d.]+", tool)] == []
