"""The arguments of a launch as the bytes of its parameter space."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tilewright.emulator.errors import LaunchError
from tilewright.emulator.ptx import Entry, Parameter

Argument: TypeAlias = "int | float | bytes | np.generic"
"""What a kernel takes as one argument; see Device.launch."""


def pack(kernel: str, entry: Entry, args: Sequence[Argument]) -> bytes:
    """The parameter space. Raises LaunchError for arguments that do not fit the parameters of the kernel."""
    parameters = entry.parameters
    _require(len(args) == len(parameters), f"{kernel} takes {len(parameters)} arguments and args has {len(args)}")
    packed = bytearray(entry.parameter_bytes)
    for index, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        data = _bytes_of(value, f"args[{index}]", parameter)
        _require(
            len(data) == parameter.size,
            f"args[{index}] has {len(data)} bytes; parameter {parameter.name} of {kernel} has {parameter.size}",
        )
        packed[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(packed)


def _bytes_of(value: Argument, name: str, parameter: Parameter) -> bytes:
    """The bytes of an argument; Python's numbers take the size of their parameter."""
    size = parameter.size
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, int):
        _require(size <= 8, f"{name} is an int; parameter {parameter.name} has {size} bytes")
        fits = -(1 << 8 * size - 1) <= value < 1 << 8 * size
        _require(fits, f"{name} is {value}, which does not fit the {size} bytes of parameter {parameter.name}")
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(value, float):
        _require(
            parameter.type[0] not in "us",
            f"{name} is the float {value}; parameter {parameter.name} is of type .{parameter.type}: give an int",
        )
        _require(
            size in (4, 8),
            f"{name} is a float; parameter {parameter.name} has {size} bytes: give a NumPy scalar of its type",
        )
        return (np.float32 if size == 4 else np.float64)(value).tobytes()
    _require(
        isinstance(value, bytes | bytearray),
        f"{name} is a {type(value).__name__} and must be an int, a float, a NumPy scalar or bytes: "
        "for an array pass the address that Device.upload returns",
    )
    return bytes(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise LaunchError(message)
