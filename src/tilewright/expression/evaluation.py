"""Expressions in float64, and the error that fp32 arithmetic may have.

Every value comes with a bound on the error of a kernel that computes it in fp32. Each operation turns the bounds of
its values into its own: a monotone function is evaluated at the ends of the interval, the steepest slope bounds others,
and then comes the operation's own rounding. A bound is infinite where nothing is known: beyond fp32's range, for the
logarithm of what may be negative, for a quotient by what may be zero.
"""

from collections.abc import Callable, Mapping
from math import erf, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.dtypes import DType, bf16, fp16, fp32
from tilewright.expression.tree import Expression, Name, Node, Number, Operation

Array: TypeAlias = np.ndarray[Any, Any]

FP32_MAX = 3.4028234663852886e38
TINY = 2.0**-126
"""The smallest normal number of fp32; some operations take less for zero."""

_STEEPEST = 1.13
"""The largest slope of any activation (gelu's); an activation can stretch an error by this factor."""

_ACTIVATION_ERROR = 2.0**-20
"""The error of an activation in fp32, by the magnitude of its argument: kernels compute exponentials in fp32."""

_SHORTER = {bf16: 2.0**-10, fp16: 2.0**-13}
"""What gelu and gelu_tanh may err besides, by their value, where results have these types.

It is a quarter of what rounding to the type may change. tests/emulate/test_activations.py measures it.
"""

_ROUNDED = 2.0**-24
"""The relative error of rounding to fp32."""

_erf: Callable[[Array], Array] = np.vectorize(erf, otypes=[np.float64])  # NumPy has no erf


class Bounded(NamedTuple):
    """Numbers in float64, and how far a correct kernel's may be from them, per element."""

    value: Array
    error: Array


Meaning: TypeAlias = Callable[..., Bounded]
"""What an operation makes of its values."""


def exact(values: Array) -> Bounded:
    """Numbers that a kernel reads as they are."""
    return Bounded(values.astype(np.float64), np.zeros(()))


def evaluate(expression: Expression, values: Mapping[str, Bounded], kind: DType = fp32) -> Bounded:
    """The expression in float64 with the error of kernels that round it to `kind`; arrays that broadcast, by name.

    A comparison of numbers that may be equal to fp32's accuracy leaves both branches of its `where` possible. Of
    results beyond the largest number of `kind` nothing is known; their value is 0 here.
    """
    known, largest = meanings(kind), 65504.0 if kind is fp16 else FP32_MAX
    with np.errstate(all="ignore"):
        result = _evaluate(expression.root, {name: _limited(*bounded) for name, bounded in values.items()}, known)
        error = _limited(*result, largest).error
    return Bounded(np.where(np.isinf(error), 0.0, result.value), error)


def meanings(kind: DType) -> Mapping[str, Meaning]:
    """Every operation of `tree.OPERATIONS` in float64, with its error in kernels that round results to `kind`."""
    if kind not in _SHORTER:
        return MEANINGS
    return MEANINGS | {name: _smooth(_GELUS[name], _SHORTER[kind]) for name in _GELUS}


def _evaluate(node: Node, values: Mapping[str, Bounded], known: Mapping[str, Meaning]) -> Bounded:
    match node:
        case Number(value):
            return Bounded(np.asarray(value), np.asarray(0.0))
        case Name(name):
            return values[name]
        case Operation(name, parts):
            return _limited(*known[name](*(_evaluate(part, values, known) for part in parts)))


def _limited(value: Array, error: Array, largest: float = FP32_MAX) -> Bounded:
    """The same with an infinite error where a number may be larger, or is missing."""
    return Bounded(value, np.where(np.abs(value) + error <= largest, error, np.inf))  # false for NaN


def _rounded(value: Array, error: Array, relative: float | Array = _ROUNDED) -> Bounded:
    """A value computed within `error`, and then with an own error of so much of its magnitude."""
    return Bounded(value, error + relative * (np.abs(value) + error) + TINY)


def _product(x: Bounded, y: Bounded) -> Bounded:
    error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
    return _rounded(x.value * y.value, error)


def _quotient(x: Bounded, y: Bounded) -> Bounded:
    value, least = x.value / y.value, np.abs(y.value) - y.error
    error = np.where(least > 0, (x.error + np.abs(value) * y.error) / least, np.inf)
    return _rounded(value, error, 2.0**-22)


def _monotone(
    function: Callable[[Array], Array], relative: float | Callable[[Array], Array]
) -> Callable[[Bounded], Bounded]:
    """What a rising or falling function makes of a Bounded; `relative` is its own error, maybe by its argument."""

    def apply(x: Bounded) -> Bounded:
        value, low, high = function(x.value), function(x.value - x.error), function(x.value + x.error)
        error = np.maximum(np.abs(low - value), np.abs(high - value))
        return _rounded(value, error, relative(np.abs(x.value) + x.error) if callable(relative) else relative)

    return apply


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _smooth(function: Callable[[Array], Array], relative: float = 0.0) -> Callable[[Bounded], Bounded]:
    """What an activation that first falls and then rises makes of a Bounded; for `relative`, see _SHORTER."""

    def apply(x: Bounded) -> Bounded:
        value, error = function(x.value), _STEEPEST * x.error
        own = relative * (np.abs(value) + error) + _ACTIVATION_ERROR * np.abs(x.value)
        return Bounded(value, error + own + TINY)

    return apply


_GELUS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / sqrt(2.0))),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))),
}


def _comparison(compare: Callable[[Array, Array], Array]) -> Callable[[Bounded, Bounded], Bounded]:
    """Whether a condition holds, with an error of 1 where a kernel may see it otherwise."""

    def apply(x: Bounded, y: Bounded) -> Bounded:
        doubt = x.error + y.error
        sure = (doubt == 0) | (np.abs(x.value - y.value) > doubt)
        return Bounded(compare(x.value, y.value), np.where(sure, 0.0, 1.0))

    return apply


def _where(condition: Bounded, x: Bounded, y: Bounded) -> Bounded:
    holds = condition.value
    value, error = np.where(holds, x.value, y.value), np.where(holds, x.error, y.error)
    other, other_error = np.where(holds, y.value, x.value), np.where(holds, y.error, x.error)
    either = np.maximum(error, np.abs(other - value) + other_error)
    return Bounded(value, np.where(condition.error > 0, either, error))


MEANINGS: dict[str, Meaning] = {
    "+": lambda x, y: _rounded(x.value + y.value, x.error + y.error),
    "-": lambda x, y: _rounded(x.value - y.value, x.error + y.error),
    "*": _product,
    "/": _quotient,
    "negate": lambda x: Bounded(-x.value, x.error),
    "abs": lambda x: Bounded(np.abs(x.value), x.error),
    "exp": _monotone(np.exp, 2.0**-21),
    "log": _monotone(np.log, 2.0**-22),
    "sqrt": _monotone(np.sqrt, 2.0**-22),
    "rsqrt": _monotone(lambda x: 1.0 / np.sqrt(x), 2.0**-22),
    "tanh": _monotone(np.tanh, 2.0**-21),
    "erf": _monotone(_erf, 2.0**-21),
    "sigmoid": _monotone(_sigmoid, lambda magnitude: (magnitude + 4) * 2.0**-23),
    "relu": lambda x: Bounded(np.maximum(x.value, 0.0), x.error),
    **{name: _smooth(function) for name, function in _GELUS.items()},
    "silu": _smooth(lambda x: x * _sigmoid(x)),
    "min": lambda x, y: Bounded(np.minimum(x.value, y.value), np.maximum(x.error, y.error)),
    "max": lambda x, y: Bounded(np.maximum(x.value, y.value), np.maximum(x.error, y.error)),
    "where": _where,
    "<": _comparison(np.less),
    "<=": _comparison(np.less_equal),
    ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal),
    "==": _comparison(np.equal),
    "!=": _comparison(np.not_equal),
}
"""`meanings` of fp32."""
