"""Errors for the caller are tilewright's own, and anything else is a defect."""

import ast
from pathlib import Path

import pytest

import tilewright
from tilewright.emulator import EmulatorError, LaunchError
from tilewright.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    UnavailableError,
    UnsupportedError,
    message_of,
)

SOURCES = Path(tilewright.__file__).parent
REPLACED = {"TypeError", "ValueError", "NotImplementedError", "RuntimeError", "Exception"}


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [
        (ArgumentTypeError, TypeError),
        (ArgumentValueError, ValueError),
        (UnsupportedError, NotImplementedError),
        (UnavailableError, RuntimeError),
        (tilewright.ConfigError, ValueError),
        (tilewright.CompilationError, RuntimeError),
        (tilewright.CompilerMissing, RuntimeError),
        (tilewright.CudaError, RuntimeError),
        (EmulatorError, Exception),
        (LaunchError, EmulatorError),
    ],
)
def test_every_error_has_the_common_base_and_its_builtin_one(ours, builtin):
    assert issubclass(ours, tilewright.TilewrightError)
    assert issubclass(ours, builtin)


def raised(path):
    """The names of what a module raises, with their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        made = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
            yield made.func.id, node.lineno


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCES.iterdir() if path.name != "emulator"))
def test_no_module_raises_a_bare_builtin_error(folder):
    path = SOURCES / folder
    modules = path.rglob("*.py") if path.is_dir() else [path] * (path.suffix == ".py")
    bare = [f"{module}:{line} {name}" for module in modules for name, line in raised(module) if name in REPLACED]
    assert bare == []


def test_a_defect_has_no_message_for_the_caller():
    assert message_of(ArgumentValueError("m is 0")) == "m is 0"
    assert message_of(ValueError("too many values to unpack")) is None
    assert message_of(MemoryError("16 GB")) == "not enough memory: take a smaller product (16 GB)"
