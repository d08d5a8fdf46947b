"""Exact arithmetic of float64 rounded in a direction: without a wider type, fractions locate the exact result."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial, reduce

import numpy as np

from tilewright.emulator.semantics.scalars import Values, directed, f8, fused_double, i1

_NEAREST: dict[str, Callable[..., Values]] = {
    "add": np.add, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt, "fma": fused_double,
}  # fmt: skip
_RESIDUAL: dict[str, Callable[..., Fraction]] = {
    "add": lambda result, a, b: a + b - result,
    "mul": lambda result, a, b: a * b - result,
    "fma": lambda result, a, b, c: a * b + c - result,
    "div": lambda result, a, b: (a - result * b) * b,
    "sqrt": lambda result, a: a - result * result,
}
"""Expressions with the sign of the exact result minus a given one."""


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
    signs = np.frompyfunc(partial(_sign_of_residual, operation), 1 + len(operands), 1)(nearest, *operands)
    error = np.asarray(signs).astype(i1)
    result = directed(nearest, error < 0, error > 0, mode)
    if mode == "rm" and operation in ("add", "fma"):  # a sum of zero is -0, unless both of its terms are +0
        *factors, term = map(np.signbit, operands)
        negative = reduce(np.logical_xor, factors) | term
        result = np.where((result == 0) & (error == 0) & negative, f8(-0.0), result)
    return result


def _sign_of_residual(operation: str, result: float, *operands: float) -> int:
    """1 if the exact result is above, -1 if it is below, 0 if it is equal or not a number."""
    if not np.isfinite(operands).all() or np.isnan(result) or (operation == "div" and operands[1] == 0):
        return 0
    if np.isinf(result):
        return -1 if result > 0 else 1
    residual = _RESIDUAL[operation](*map(Fraction, map(float, (result, *operands))))
    return (residual > 0) - (residual < 0)
