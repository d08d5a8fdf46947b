"""CUDA C++: its text, or the path of a file with it, compiled by NVRTC."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.checking.doors.door import Call, Perform
from tilewright.checking.doors.ptx import is_source, launch_module
from tilewright.checking.launch import Source
from tilewright.checking.names import in_cpp, listed
from tilewright.checking.wording import PYTHON, Wording
from tilewright.emulator import Device
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.jit.compile import CompilationError
from tilewright.jit.user_source import UserSource, is_expression

SUFFIXES = (".cu", ".cuh", ".cpp", ".hpp")
_FIRST_ERROR = re.compile(r"^(?P<file>[^\s(]+)\(\d+\): (?:catastrophic )?error: (?P<said>.*)", re.MULTILINE)
_NAMES = "__nv_name_map"
"""The file in which NVRTC finds errors of an entry named as in C++."""


class CudaDoor:
    """CUDA C++ sources."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is the path of such a file, by its suffix, or text with a __global__ function."""
        if isinstance(kernel, str) and is_source(kernel):
            return "__global__" in kernel and ".version" not in kernel
        return isinstance(kernel, str | Path) and str(kernel).endswith(SUFFIXES)

    def run(self, call: Call, perform: Perform) -> None:
        """Compile the source and launch its kernel."""
        options = dict(call.options)
        definitions = _definitions(options.pop("define", {}))
        folders = _folders(options.pop("include", ()))
        call.refuse_options("CUDA C++", options)
        text = call.kernel if isinstance(call.kernel, str) and is_source(call.kernel) else None
        if text is None:
            source = UserSource.read(Path(call.kernel), folders, definitions)
        else:
            source = UserSource("kernel.cu", text, tuple(folders), tuple(definitions))
        launch_source(source, call, perform)


def launch_source(source: UserSource, call: Call, perform: Perform) -> None:
    """Compile a source and launch its kernel as a call says."""
    ptx, entry, title = compiled(source, call.entry, PYTHON)
    launch_module(ptx, entry, call, perform, title)


def compiled(source: UserSource, entry: str | None, words: Wording) -> tuple[Source, str, str]:
    """The PTX of a source, the name in it of an entry, and the entry's name in C++."""
    for folder in source.folders:
        if not os.path.isdir(folder):
            raise ArgumentValueError(f"{words.written('include', folder)} is no folder: name one with headers")
    expression = entry if entry is not None and is_expression(entry) else ""
    try:
        kernel = source.compiled(expression)
    except CompilationError as error:
        first = _FIRST_ERROR.search(error.log)
        if first is None or first["file"] != _NAMES:
            raise
        known = [*listed(Device.entries(source.compiled().ptx)), *source.templates]
        names = "".join(f"\n  {name}" for name in known)
        raise ArgumentValueError(
            f"{words.written('entry', expression)} names no kernel of {source.name}: {first['said']}; "
            f"name one of these, a template with arguments of your own:{names}"
        ) from error
    ptx = Source(source.name, kernel.ptx)
    if expression:
        return ptx, kernel.name, expression
    try:
        name = ptx.entry_named(entry, words)
    except ArgumentValueError as error:
        said = str(error)
        for example in _examples(source, entry, Device.entries(kernel.ptx)):
            template, _, _ = example.partition("<")
            said += f"\n{template} is a template: instantiate it with {words.written('entry', example)} or the like"
        raise ArgumentValueError(said) from error
    return ptx, name, in_cpp(name)


def _examples(source: UserSource, wanted: str | None, entries: Sequence[str]) -> list[str]:
    """Instantiations of templates that nobody instantiates: those of the wanted name, or all if there is no entry."""
    there = {in_cpp(entry).partition("<")[0].rpartition("::")[2] for entry in entries}
    absent = [each for each in source.templates if each.partition("<")[0] not in there]
    fitting = [each for each in absent if wanted is None or wanted in each]
    return fitting if fitting or entries else absent


def _definitions(define: Any) -> list[str]:
    if not isinstance(define, Mapping):
        raise ArgumentTypeError(f'define={define!r} must be macros by name, such as {{"TILE": 64}}')
    return [f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in define.items()]


def _folders(include: Any) -> list[str]:
    folders = [include] if isinstance(include, str | Path) else include
    if not isinstance(folders, Iterable):
        raise ArgumentTypeError(f"include={include!r} must be the path of a folder of headers, or several")
    return [str(folder) for folder in folders]


CUDA = CudaDoor()
