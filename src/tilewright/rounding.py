"""Whole numbers: as callers give them, Python's or NumPy's, and rounded up."""

import operator
from collections.abc import Sequence
from typing import Any

from tilewright.errors import ArgumentValueError


def ceil_div(value: int, by: int) -> int:
    """How many pieces of size `by` hold `value`."""
    return -(-value // by)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below value."""
    return ceil_div(value, multiple) * multiple


def integers(value: object) -> tuple[int, ...]:
    """The integers of a sequence, or the one given alone; none if anything else is among them."""
    several = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)
    values: Any = value if several or getattr(value, "ndim", False) else (value,)
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        return ()


def natural(name: str, value: Any, least: int = 0) -> int:
    """The integer, or an ArgumentValueError that names it if it is below `least` or something else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ArgumentValueError(f"{name}={value!r} must be an integer from {least} on: give one")
    return number
