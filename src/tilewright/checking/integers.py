"""Integers as callers give them: Python's or NumPy's, alone or in a sequence."""

import operator
from collections.abc import Sequence

import numpy as np

from tilewright.errors import ArgumentValueError


def integers(value: object) -> tuple[int, ...]:
    """The integers of a sequence, or the one given alone; none if anything else is among them."""
    try:
        return tuple(map(operator.index, value if isinstance(value, Sequence | np.ndarray) else (value,)))
    except TypeError:
        return ()


def natural(name: str, value: object) -> int:
    """The integer, or an ArgumentValueError that names it if it is negative or something else."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentValueError(f"{name}={value!r} must be an integer from 0 on: leave it out, or give one")
    return number
