"""docs/emulator.md: its kernel has the bug that it says, its commands print what it shows, its Python works."""

import re
import shlex
from pathlib import Path

import pytest

from emulate.nvrtc import compile_ptx
from support.commands import invoke

TEXT = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Puts block_sum.ptx, as shown or corrected, into the current directory."""
    (source,) = blocks("cpp")
    fixed = [*source.split("\n")]
    assert fixed[6] == ""
    fixed[6] = "  __syncthreads();"

    def put(lines):
        ptx = compile_ptx("\n".join(lines)).replace("test.cu", "block_sum.cu")
        (tmp_path / "block_sum.ptx").write_text(ptx)

    monkeypatch.chdir(tmp_path)
    return {"shown": lambda: put(source.split("\n")), "fixed": lambda: put(fixed)}


def printed(code):
    (command,) = [shlex.split(line)[1:] for block in blocks("bash") for line in block.splitlines()]
    return invoke(*command, code=code).stdout


def without_counts(text):
    """Words and source lines: the instructions, and so PTX lines and counts, are those of one version of NVRTC."""
    return re.sub(r"(?<!cu:)\b\d[\d,.]*[kM]?", "#", text).split()


@pytest.mark.planted_fault
def test_the_shown_report_is_that_of_the_shown_bug(compiled):
    compiled["shown"]()
    assert without_counts(printed(code=1)) == without_counts(blocks("text")[0])


def test_the_corrected_kernel_is_clean_and_counted_as_shown(compiled):
    compiled["fixed"]()
    assert without_counts(printed(code=0)) == without_counts(blocks("text")[1])


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_works(compiled, number):
    compiled["fixed"]()
    namespace = {}
    exec(compile(blocks("python")[number], "emulator.md", "exec"), namespace)
    for name, function in namespace.items():
        if name.startswith("test_"):
            function()


@pytest.mark.planted_fault
def test_the_pytest_example_fails_for_the_bug(compiled):
    compiled["shown"]()
    namespace = {}
    exec(compile(blocks("python")[0], "emulator.md", "exec"), namespace)
    with pytest.raises(AssertionError):
        namespace["test_block_sum"]()
