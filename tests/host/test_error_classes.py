"""Errors for the caller are tilewright's own, and anything else is a defect."""

import ast
import re
from pathlib import Path

import pytest

import tilewright
from tilewright import errors
from tilewright.emulator import EmulatorError, LaunchError
from tilewright.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    OutOfMemoryError,
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
        (OutOfMemoryError, MemoryError),
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
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            yield node.exc.func.id, node.lineno


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


REMEDY = re.compile(
    r"(?:[:;,.)] |^)(?:or |and )?`?(?:add|call|choose|compile|convert|copy|describe|drop|fill|give|install|leave|make"
    r"|move|name|pass|pip install|put|say|see|set|take|tune|use|write|tilewright|cuobjdump)\b"
    r"|\bmust\b|, nor one of |at most \{\}$|(?:one of|takes) \{\}$|should one of them be transposed\?$"
)
"""What to do, or the rule that a value has to follow."""

FORWARDED = re.compile(r"(?:^|: |\n)\{\}$|^\{\}: \{\}")
"""Ends in what another message, a library or the driver says."""

DEFECTS = ("NVRTC failed with {}", "the CUDA driver failed with {}", "{} failed with {}")
"""Nothing that the caller could change."""


def messages(path):
    """What a module's errors for the caller say, with {} for each value, and their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        made = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Return) else None
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.args:
            kind = getattr(errors, made.func.id, None)
            if isinstance(kind, type) and issubclass(kind, tilewright.TilewrightError):
                yield text_of(made.args[0]), made.lineno


def text_of(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_every_message_names_a_value_and_says_what_to_do(path):
    if "emulator" in path.relative_to(SOURCES).parts:
        pytest.skip("its messages are about kernels")
    for message, line in messages(path):
        if message == "{}" or FORWARDED.search(message) or message.startswith(DEFECTS):
            continue
        assert REMEDY.search(message), f"{path}:{line} {message}"
