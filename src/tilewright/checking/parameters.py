"""The check of a launch's arguments against the kernel's parameters, by their types in the PTX."""

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.checking.arguments import Arguments, Item, Pointer, Structure, TensorMapOf
from tilewright.checking.names import in_cpp
from tilewright.checking.wording import Wording
from tilewright.emulator.ptx.syntax import TYPE_BITS
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.emulator import Kernel
    from tilewright.emulator.ptx.syntax import Parameter


def fit(arguments: Arguments, kernel: "Kernel", words: Wording) -> None:
    """Convert integers for f32 and f64 parameters to floats, and tensor maps for pointers to their addresses.

    Raises:
        ArgumentValueError: naming the parameter, its PTX type and the accepted values, if an argument does not fit or
        is missing.
    """
    parameters, count = kernel.parameters, len(arguments.items)
    if count != len(parameters):
        wanted = "".join(
            f"\n  parameter {number}, {declared(parameter)}, takes {taken_by(parameter, words)}"
            for number, parameter in enumerate(parameters, 1)
        )
        given = words.given.format(count=count, times="once" if count == 1 else f"{count} times")
        raise ArgumentValueError(
            f"{given} and {in_cpp(kernel.name)} takes {len(parameters) or 'no'} "
            f"argument{'s' * (len(parameters) != 1)}: give {'one for each' if wanted else 'none'}{wanted}"
        )
    for number, (parameter, label, item) in enumerate(zip(parameters, arguments.labels, arguments.items, strict=True)):
        if isinstance(item, int) and _is_float(parameter) and abs(item) <= sys.float_info.max:
            item = arguments.items[number] = float(item)
        elif isinstance(item, TensorMapOf) and parameter.size == 8 and not _is_float(parameter):
            item = arguments.items[number] = replace(item, by_address=True)
        if not _fits(item, parameter):
            given = "" if (size := _nbytes(item)) is None else f" has {size} bytes"
            raise ArgumentValueError(
                f"{label}{given}: parameter {number + 1} of {in_cpp(kernel.name)}, {declared(parameter)}, takes "
                f"{taken_by(parameter, words)}"
            )


def declared(parameter: "Parameter") -> str:
    """The parameter as the PTX declares it, without a name that a compiler has made of the kernel's and a number."""
    count = "" if _is_scalar(parameter) else f"[{parameter.size // _width(parameter)}]"
    name = "" if re.search(r"_param_\d+$", parameter.name) else f" {parameter.name}"
    return f".{parameter.type}{name}{count}"


def taken_by(parameter: "Parameter", words: Wording) -> str:
    """The accepted arguments of a parameter, in words."""
    if _is_float(parameter):
        return "a number such as 1.5"
    integer = f"a {parameter.size}-byte integer such as 5"
    if _is_scalar(parameter):
        return words.address if parameter.size == 8 else integer
    return words.structure.format(size=parameter.size) + words.typed.get(parameter.size, "")


def _fits(item: Item, parameter: "Parameter") -> bool:
    if (size := _nbytes(item)) is not None:  # np.float64 is a float, too
        return parameter.size == size
    if isinstance(item, Pointer):
        return parameter.size == 8 and not _is_float(parameter)
    if isinstance(item, TensorMapOf):
        return item.by_address or parameter.size == TENSOR_MAP_BYTES
    if isinstance(item, float):
        return _is_float(parameter)
    assert isinstance(item, int)
    return parameter.size <= 8 and -(1 << 8 * parameter.size - 1) <= item < 1 << 8 * parameter.size


def _nbytes(item: Item) -> int | None:
    """The size of an argument that has one of its own."""
    if isinstance(item, np.generic):
        return item.nbytes
    if isinstance(item, Structure | bytes):
        return len(item.data if isinstance(item, Structure) else item)
    return None


def _is_float(parameter: "Parameter") -> bool:
    return parameter.type in ("f32", "f64") and _is_scalar(parameter)


def _is_scalar(parameter: "Parameter") -> bool:
    return parameter.size == _width(parameter)


def _width(parameter: "Parameter") -> int:
    return TYPE_BITS[parameter.type] // 8
