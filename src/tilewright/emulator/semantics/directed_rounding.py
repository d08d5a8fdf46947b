"""Exact arithmetic of float64 rounded in a direction: errors of sums and products locate the exact result."""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce

import numpy as np

from tilewright.emulator.semantics.scalars import Values, directed, f8, fused_double, leaves_range, two_product, two_sum

_NEAREST: dict[str, Callable[..., Values]] = {
    "add": np.add, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt, "fma": fused_double,
}  # fmt: skip
_RESIDUAL: dict[str, Callable[..., tuple[Values, Values, Values, Values]]] = {
    "add": lambda result, a, b: (a, f8(1), b, -result),
    "mul": lambda result, a, b: (a, b, f8(0), -result),
    "fma": lambda result, a, b, c: (a, b, c, -result),
    "div": lambda result, a, b: (-result, np.abs(b), np.where(b < 0, -a, a), f8(0)),
    "sqrt": lambda result, a: (-result, result, a, f8(0)),
}
"""Numbers x, y, z and w with the sign of the exact result minus a given one in x * y + z + w."""


def rounded_double(operation: str, mode: str, *operands: Values) -> Values:
    """add, sub, mul, fma, mad, div, rcp or sqrt of float64, rounded in a direction (rz, rm, rp)."""
    match operation:
        case "sub":
            operation, operands = "add", (operands[0], -operands[1])
        case "rcp":
            operation, operands = "div", (f8(1), *operands)
        case "mad":
            operation = "fma"
    nearest = np.asarray(_NEAREST[operation](*operands))
    finite = reduce(np.logical_and, map(np.isfinite, operands)) & ~np.isnan(nearest)
    if operation == "div":
        finite = finite & (operands[1] != 0)
    sign = np.where(np.isinf(nearest), -np.sign(nearest), _sign_of_sum(*_RESIDUAL[operation](nearest, *operands)))
    error = np.where(finite, sign, 0)
    result = directed(nearest, error < 0, error > 0, mode)
    if mode == "rm" and operation in ("add", "fma"):  # a sum of zero is -0, unless both of its terms are +0
        *factors, term = map(np.signbit, operands)
        negative = reduce(np.logical_xor, factors) | term
        result = np.where((result == 0) & (error == 0) & negative, f8(-0.0), result)
    return result


def _sign_of_sum(x: Values, y: Values, z: Values, w: Values) -> Values:
    """The sign of x * y + z + w of float64: that of the largest part of an exact sum, whose parts do not overlap.

    Where one is not finite, it is any number. Source: Shewchuk, "Adaptive precision floating-point arithmetic and fast
    robust geometric predicates", 1997.
    """
    x, y, z, w = np.broadcast_arrays(x, y, z, w)
    product, error = two_product(x, y)
    parts = [error, product]
    for term in (z, w):
        grown = []
        for part in parts:
            term, low = two_sum(term, part)
            grown.append(low)
        parts = [*grown, term]
    sign = np.zeros(x.shape)
    for part in parts:  # the smallest first
        sign = np.where(part != 0, np.sign(part), sign)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & np.isfinite(w)
    for lane in map(tuple, np.argwhere(finite & leaves_range(x, y, product, z, w))):
        factor, other, *terms = (Fraction(float(value[lane])) for value in (x, y, z, w))
        exact = factor * other + sum(terms)
        sign[lane] = (exact > 0) - (exact < 0)
    return sign
