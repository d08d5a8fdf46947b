"""Whether the arguments of `--arg` are what a kernel's parameters take, by their types in the PTX."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.cli.check_arguments import Arguments, Pointer, TensorMapOf
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.cli.check_arguments import Item
    from tilewright.emulator import Kernel
    from tilewright.emulator.ptx import Parameter


def fit(arguments: Arguments, texts: Sequence[str], kernel: "Kernel") -> None:
    """Make integers that f32 and f64 parameters get floats.

    Raises:
        ValueError: naming the parameter, its PTX type and what it takes, where an argument does not fit or is missing.
    """
    parameters = kernel.parameters
    if len(texts) != len(parameters):
        wanted = "".join(f"\n  {name_of(parameter)} takes {taken_by(parameter)}" for parameter in parameters)
        times = "once" if len(texts) == 1 else f"{len(texts)} times"
        raise ArgumentValueError(
            f"--arg is given {times} and {kernel.name} takes {len(parameters) or 'no'} "
            f"argument{'s' * (len(parameters) != 1)}{':' if wanted else ''}{wanted}"
        )
    for number, (parameter, text, item) in enumerate(zip(parameters, texts, arguments.items, strict=True)):
        if isinstance(item, int) and _is_float(parameter):
            item = arguments.items[number] = float(item)
        if not _fits(item, parameter):
            raise ArgumentValueError(
                f"--arg {text!r}: parameter {number + 1} of {kernel.name}, {name_of(parameter)}, takes "
                f"{taken_by(parameter)}"
            )


def name_of(parameter: "Parameter") -> str:
    """The parameter as the PTX declares it."""
    count = "" if _is_scalar(parameter) else f"[{parameter.size // _width(parameter)}]"
    return f".{parameter.type} {parameter.name}{count}"


def taken_by(parameter: "Parameter") -> str:
    """What may be written for a parameter."""
    if _is_float(parameter):
        return "a number such as 1.5"
    integer = f"a {parameter.size}-byte integer such as 5"
    if _is_scalar(parameter):
        return "f32[1024]:random or the like, ptr:NAME or an integer" if parameter.size == 8 else integer
    from tilewright.emulator.tensor_map import TENSOR_MAP_BYTES

    typed = {2: ", or f16:1.5 or bf16:1.5", 4: ", or f32:1.5", TENSOR_MAP_BYTES: ", or tensormap(...)"}
    return f"a structure: bytes:HEX of {parameter.size} bytes{typed.get(parameter.size, '')}"


def _fits(item: "Item", parameter: "Parameter") -> bool:
    import numpy as np

    from tilewright.emulator.tensor_map import TENSOR_MAP_BYTES

    if isinstance(item, np.generic):  # of which np.float64 is a float, too
        return parameter.size == item.nbytes
    if isinstance(item, Pointer):
        return parameter.size == 8 and not _is_float(parameter)
    if isinstance(item, TensorMapOf):
        return parameter.size == TENSOR_MAP_BYTES
    if isinstance(item, float):
        return _is_float(parameter)
    if isinstance(item, int):
        return parameter.size <= 8 and -(1 << 8 * parameter.size - 1) <= item < 1 << 8 * parameter.size
    return parameter.size == len(item)


def _is_float(parameter: "Parameter") -> bool:
    return parameter.type in ("f32", "f64") and _is_scalar(parameter)


def _is_scalar(parameter: "Parameter") -> bool:
    return parameter.size == _width(parameter)


def _width(parameter: "Parameter") -> int:
    from tilewright.emulator.ptx import TYPE_BITS

    return TYPE_BITS[parameter.type] // 8
