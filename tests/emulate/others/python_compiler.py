"""What the compilers of Python sources share: sources as modules, options, and PTX without traces of this machine.

Options are constants, NAME=VALUE; a twin's define is a constant too, which is True.
A comment in the PTX's first line says how much dynamic shared memory the kernel needs.
"""

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from emulate.others.corpus import SHARED_BYTES, Case

_DEBUG_SECTIONS = re.compile(r"\n\s*\.section\s+\.debug_\w+\s*\{.*?\n\s*\}", re.DOTALL)
_FOLDERS = re.compile(r'(\.file\s+\d+ ")[^"]*/')


def module_of(source: Path) -> ModuleType:
    """The source as a module."""
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constants(case: Case, define: str | None) -> dict[str, Any]:
    """The options by name, and the fault."""
    options = dict(option.split("=", 1) for option in case.options)
    values = {name: ast.literal_eval(value) for name, value in options.items()}
    return values if define is None else values | {define: True}


def listing(ptx: str, shared_bytes: int) -> str:
    """The PTX as the archive holds it: only what it is run by, and lines of the source."""
    ptx = _FOLDERS.sub(r"\1", _DEBUG_SECTIONS.sub("", ptx.rstrip("\0")))
    return f"{SHARED_BYTES}{shared_bytes}\n{ptx.strip()}\n"
