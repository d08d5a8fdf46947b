"""Kernels in a user's Python file: `FILE.py:NAME`, with arguments as --arg describes them."""

import ast
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.checking.arguments import Arguments, Item
    from tilewright.reference import Array


def loaded(path: Path) -> ModuleType:
    """The module in a file, imported as a script in its folder would import it; raises an ArgumentValueError."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ArgumentValueError(f"{path} cannot be read: there is no such file; name a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a module that ends the process would end it unchecked
        lines = [step.tb_lineno for step in _steps(error) if step.tb_frame.f_code.co_filename == str(path)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        where = f"{path}:{line}" if line else str(path)
        raise ArgumentValueError(f"{where} ends with {type(error).__name__}: {error}; make it run first") from error
    return module


def kernel_named(module: ModuleType, name: str) -> Any:
    """An object of a module, also NAME.PART; raises an ArgumentValueError that lists the module's kernels."""
    from tilewright.checking.doors import DOORS

    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if any(door.has(found) for door in DOORS) and not isinstance(found, str | Path):
        return found
    own = [
        key
        for key, value in vars(module).items()
        if not isinstance(value, str | Path | type) and any(door.has(value) for door in DOORS)
    ]
    choice = f"it has {', '.join(own)}" if own else "it has none, of Triton, CuTe DSL, CuPy or cuda-core"
    lacks = "is no kernel" if found is not None else "is not in it"
    raise ArgumentValueError(f"{module.__file__}: {name!r} {lacks}: name one of its kernels, FILE.py:NAME; {choice}")


def constants(definitions: Sequence[str], module: ModuleType) -> dict[str, Any]:
    """Keyword arguments of --define NAME=VALUE: Python literals, names of the module such as tl.float16, or text."""
    values: dict[str, Any] = {}
    for definition in definitions:
        name, equals, text = definition.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentValueError(f"--define {definition!r} must be NAME=VALUE, such as BLOCK=128")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found: Any = module
            for part in text.split("."):
                found = getattr(found, part, None)
            values[name] = text if found is None else found
    return values


def values(arguments: "Arguments", seed: int) -> list[Any]:
    """The arguments as a Python caller would pass them."""
    arrays = arguments.initial(seed)
    return [_value(item, label, arrays) for item, label in zip(arguments.items, arguments.labels, strict=True)]


def _value(item: "Item", label: str, arrays: "Mapping[str, Array]") -> Any:
    from tilewright.checking.arguments import Pointer, TensorMapOf

    if isinstance(item, TensorMapOf):
        return _descriptor(item, arrays[item.buffer])
    if isinstance(item, bytes):
        raise ArgumentValueError(f"{label}: a kernel in Python takes no bytes: give a number or an array")
    if not isinstance(item, Pointer):
        return item.item() if isinstance(item, np.generic) else item
    if item.buffer is None:
        return None
    array = arrays[item.buffer]
    if not item.offset:
        return array
    if item.offset % array.itemsize or item.offset >= array.nbytes:
        raise ArgumentValueError(
            f"{label}: {item.offset} bytes are not an element of {item.buffer}, {array.nbytes} bytes"
        )
    return array.reshape(-1)[item.offset // array.itemsize :]


def _descriptor(wanted: Any, array: "Array") -> Any:
    """A TensorDescriptor of Triton."""
    tools = sys.modules.get("triton.tools.tensor_descriptor")
    if tools is None:
        raise ArgumentValueError(f"{wanted.label} is for Triton kernels that import TensorDescriptor: pass an array")
    from tilewright.checking.doors.triton import Lent

    lent = Lent(array)
    return tools.TensorDescriptor(lent, list(lent.shape), list(lent.stride()), list(wanted.box))  # type: ignore[arg-type]


def _steps(error: BaseException) -> list[Any]:
    steps, step = [], error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    return steps
