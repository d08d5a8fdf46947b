"""The effect of atomics and bulk reductions on a cell of memory, and the list of existing bulk reductions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.emulator.memory import Bytes
from tilewright.emulator.semantics.scalars import (
    Values,
    bf16_to_float,
    f16_to_float,
    float_to_bf16,
    float_to_f16,
    high_half,
    low_half,
    maximum,
    minimum,
    pack_halves,
)

_OF_INTEGERS: dict[str, np.ufunc] = {"add": np.add, "min": np.minimum, "max": np.maximum}
_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "min": minimum, "max": maximum}
_BITWISE = ("and", "or", "xor")
_EXTREMES = ("u32", "s32", "u64", "s64", "f16", "bf16")
_GLOBAL: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), _EXTREMES),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(_BITWISE, ("b32", "b64")),
}
BULK_REDUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "shared": {
        "add": ("u32", "s32", "u64"),
        **dict.fromkeys(("min", "max"), ("u32", "s32")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(_BITWISE, ("b32",)),
    },
    "global": _GLOBAL,
    "tensor": {
        **_GLOBAL,
        "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
        **dict.fromkeys(_BITWISE, ("u32", "s32", "u64")),
    },
}
"""The types that exist, by destination and .redOp.

A tensor map has no types of bits: integers stand for them, except for s64, which an H200 refuses as an illegal
instruction. Source: PTX ISA, the tables of cp.reduce.async.bulk and cp.reduce.async.bulk.tensor.
"""


def require_bulk_reduction(destination: str, operation: str, kind: str) -> None:
    """Raise ValueError for a reduction that PTX does not have. destination: a key of BULK_REDUCTIONS."""
    types = BULK_REDUCTIONS[destination][operation]
    if kind not in types:
        raise ValueError(
            f"there is no bulk reduction .{operation} of .{kind} to {destination} memory: use .{', .'.join(types)}"
            if destination != "tensor"
            else f"there is no .{operation} of a tensor of {kind}: make its map with {', '.join(types)}"
        )


def reduce_into(target: Bytes, source: Bytes, operation: str, kind: str) -> None:
    """Reduce bytes, (..., row bytes), into others, which may be a view of memory, element by element.

    Subnormal f32 numbers are kept, as an H200 does, though the manual says that they are flushed.
    """
    dtype = _cell(kind)
    cells = target.view(dtype)
    cells[...] = combine((operation, kind), cells, source.view(dtype), None)


def _cell(kind: str) -> "np.dtype[Any]":
    """The dtype that holds elements of a type: 16-bit floating-point numbers are held as their bits."""
    if kind in ("f16", "bf16"):
        return np.dtype("u2")
    letter = {"b": "u", "s": "i"}.get(kind[0], kind[0])
    return np.dtype(f"{letter}{int(kind[1:]) // 8}")


def combine(form: tuple[str, str], old: Values, value: Values, compare: Values | None) -> Values:
    """The new contents of a cell; form: operation and PTX type; compare: the expected value of cas."""
    operation, kind = form
    match operation:
        case "exch":
            return value
        case "cas":
            return np.where(old == compare, value, old)
        case "inc":
            return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
    if "f" not in kind:
        return _OF_INTEGERS[operation](old, value)
    function = _OF_FLOATS[operation]
    if kind in ("f16x2", "bf16x2"):
        low = _combine_half(kind[:-2], function, low_half(old), low_half(value))
        return pack_halves(low, _combine_half(kind[:-2], function, high_half(old), high_half(value)))
    if kind in ("f16", "bf16"):
        return _combine_half(kind, function, old, value)
    return function(old, value)


def _combine_half(kind: str, function: Callable[[Any, Any], Any], old: Values, value: Values) -> Values:
    if kind == "f16":
        return float_to_f16(function(f16_to_float(old), f16_to_float(value)))
    return float_to_bf16(function(bf16_to_float(old), bf16_to_float(value)))


def float_halves(values: Values, kind: str) -> Values:
    """16-bit floating-point numbers as float32, with a last axis of two for pairs; kind: f16, bf16, f16x2 or bf16x2."""
    widen = f16_to_float if kind.startswith("f16") else bf16_to_float
    if kind.endswith("x2"):
        return np.stack([widen(low_half(values)), widen(high_half(values))], axis=-1)
    return widen(values)


def halves_of_float(values: Values, kind: str) -> Values:
    """The inverse of float_halves, rounded to the nearest."""
    narrow = float_to_f16 if kind.startswith("f16") else float_to_bf16
    if kind.endswith("x2"):
        return pack_halves(narrow(values[..., 0]), narrow(values[..., 1]))
    return narrow(values)
