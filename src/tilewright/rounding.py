"""Numbers as callers give them, Python's or NumPy's; whole ones rounded up; and rates rounded for people."""

import operator
from collections.abc import Iterable, Sequence
from math import inf
from numbers import Real
from typing import Any

from tilewright.errors import ArgumentValueError

MOST_COUNTED = 2**53
"""The most of anything that models count: floating-point numbers have every integer up to there."""


def ceil_div(value: int, by: int) -> int:
    """How many pieces of size `by` hold `value`."""
    return -(-value // by)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below value."""
    return ceil_div(value, multiple) * multiple


def three_digits(value: float) -> str:
    """A rate as people read it: 0.429, 84.1, 803, and 1490 from four digits on."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def size_text(nbytes: int) -> str:
    """A number of bytes as people read it: 67.1 MB, and - for none."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if nbytes >= 0.9995 * size:
            return f"{nbytes / size:.3g} {unit}" if nbytes < 999.5 * size else f"{nbytes / size:,.0f} {unit}"
    return f"{nbytes} B" if nbytes else "-"


def integers(value: object) -> tuple[int, ...]:
    """The integers of a sequence, or the one given alone; none if anything else is among them."""
    several = isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)
    values: Any = value if several or getattr(value, "ndim", False) else (value,)
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        return ()


def natural(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """The integer, or an ArgumentValueError that names it if it is out of its range or something else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        until = "on" if most is None else f"to {most:,}"
        raise ArgumentValueError(f"{name}={value!r} must be an integer from {least} {until}: give one")
    return number


def real(name: str, value: Any, least: float = 0.0, most: float = inf) -> float:
    """The number, or an ArgumentValueError that names it if it is out of its range, NaN or something else."""
    if not isinstance(value, Real) or not least <= float(value) <= most:
        until = "on" if most == inf else f"to {most:g}"
        raise ArgumentValueError(f"{name}={value!r} must be a number from {least:g} {until}: give one")
    return float(value)


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise an ArgumentValueError that lists the names unless the value is one of them."""
    if value not in (names := tuple(known)):
        raise ArgumentValueError(f"{name}={value!r} is unknown: use {', '.join(names)}")
