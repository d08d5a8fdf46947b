"""Errors of a compiler and of the code that it runs: whose they are, at which line, with which remedy."""

import importlib.util
import sys

import pytest

import tilewright as tw
from tilewright.checking import result
from tilewright.checking.doors.user_code import REMEDY, Compiler
from tilewright.errors import ArgumentTypeError, ArgumentValueError

COMPILER = (
    "def trace(function, *arguments):\n    return function(*arguments)\n\n\ndef refuse(error):\n    raise error\n"
)
USER = """def divide(x):
    return (
        1 / x
    )


def convert(x):
    return int("x", base=None)


def leave(x):
    raise SystemExit(3)
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A compiler that runs functions, and a file of a user."""
    (tmp_path / "toycompiler").mkdir()
    made = []
    for name, path, text in (
        ("toycompiler", tmp_path / "toycompiler/__init__.py", COMPILER), ("mine", tmp_path / "mine.py", USER)
    ):  # fmt: skip
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        made.append(module)
    return made


def toy(**remedies):
    return Compiler("Toy", ("toycompiler",), remedies)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("divide", "mine.py:3: ZeroDivisionError: division by zero\n    1 / x\n" + REMEDY),
        ("convert", "mine.py:8: TypeError: "),
        ("leave", "mine.py:12: SystemExit: 3\n    raise SystemExit(3)\n"),
    ],
)
def test_an_error_in_the_code_of_the_user_has_its_line(modules, name, said):
    compiler, mine = modules
    with pytest.raises(tw.CompilationError) as refusal, toy().readable_errors("f"):
        compiler.trace(getattr(mine, name), 0)
    assert str(refusal.value).startswith(f"Toy cannot compile f: {mine.__file__.removesuffix('mine.py')}{said}")


def test_what_the_compiler_refuses_is_an_error_of_the_call_or_of_the_kernel(modules):
    compiler, _ = modules
    for remedies, error, kind, said in (
        ({}, TypeError("dynamic_func() takes no x"), ArgumentTypeError, "Toy refuses this call of f: f takes no x"),
        (
            {},
            RuntimeError("no name y"),
            tw.CompilationError,
            f"Toy cannot compile f: RuntimeError: no name y\n{REMEDY}",
        ),
        (
            {r"no name (\w)": r"declare \1"},
            RuntimeError("no name y"),
            tw.CompilationError,
            "Toy cannot compile f: RuntimeError: no name y\ndeclare y",
        ),
        ({"name": ""}, RuntimeError("no name"), tw.CompilationError, "Toy cannot compile f: RuntimeError: no name"),
    ):
        with pytest.raises(kind) as refusal, toy(**remedies).readable_errors("f"):
            compiler.refuse(error)
        assert str(refusal.value) == said


def test_defects_of_tilewright_and_its_own_errors_stay_what_they_are(modules):
    compiler, _ = modules
    with pytest.raises(AttributeError), toy().readable_errors("f"):
        compiler.trace(result.merged, 3 * [None])
    with pytest.raises(ArgumentValueError, match="launches nothing"), toy().readable_errors("f"):
        compiler.trace(result.merged, [])
