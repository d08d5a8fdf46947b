"""Expressions in float64, and the error that fp32 arithmetic may have.

Every value comes with a bound on the error of a kernel that computes it in fp32. Each operation turns the bounds of
its values into its own: a monotone function is evaluated at the ends of the interval, the steepest slope bounds others,
and then comes the operation's own rounding. A bound is infinite where nothing is known: for what may be beyond fp32's
range, for the logarithm of what may be negative, for a quotient by what may be zero. Where a kernel's result is
certainly infinite or NaN, so is the value, and its bound is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import erf, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.dtypes import DType, bf16, fp16, fp32
from tilewright.expression.tree import Expression, Name, Node, Number, Operation, joined

Array: TypeAlias = np.ndarray[Any, Any]

FP32_MAX = 3.4028234663852886e38
TINY = 2.0**-126
"""The smallest normal number of fp32; some operations take less for zero."""

_STEEPEST = 1.13
"""The largest slope of any activation (gelu's); an activation can stretch an error by this factor."""

_ACTIVATION_ERROR = 2.0**-20
"""The error of an activation in fp32, by the magnitude of its argument: kernels compute exponentials in fp32."""

_BEYOND_FP32 = 2.0**128 * (1 + 2.0**-18)
"""What exceeds this is infinite in fp32, whatever the last bits of the result of an operation."""

_SHORTER = {bf16: 2.0**-10, fp16: 2.0**-13}
"""What gelu and gelu_tanh may err besides, by their value, where results have these types.

It is a quarter to half of what rounding to the type may change. tests/emulate/test_activations.py measures it.
"""

_ROUNDED = 2.0**-24
"""The relative error of rounding to fp32."""

_erf: Callable[[Array], Array] = np.vectorize(erf, otypes=[np.float64])  # NumPy has no erf


class Bounded(NamedTuple):
    """Numbers in float64, and how far a correct kernel's may be from them, per element.

    An infinite error says that nothing is known; infinity or NaN without an error is what a kernel's must be, too.
    """

    value: Array
    error: Array


Meaning: TypeAlias = Callable[..., Bounded]
"""What an operation makes of its values."""


def exact(values: Array) -> Bounded:
    """Numbers that a kernel reads as they are."""
    return Bounded(values.astype(np.float64), np.zeros(()))


def summed(total: Array, error: Array, magnitude: Array) -> Bounded:
    """A sum that kernels make in fp32, in whatever order, within `error` of `total`; what it is beyond fp32's range.

    magnitude: that of all finite terms together. Where terms of one sign may overflow by themselves, and those of the
    other cannot, a sum beyond the range is infinite. Nothing is known of others whose terms may overflow on the way:
    they are finite, infinite, or NaN where both signs do.
    """
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(total)
        other = np.where(finite, (magnitude - np.abs(total)) / 2, magnitude)
        beyond = (np.abs(total) - error > _BEYOND_FP32) & (other + error <= FP32_MAX)
        certain = beyond | np.isnan(total)
        open_ended = ~(magnitude + error <= FP32_MAX)
    value = np.where(beyond, np.copysign(np.inf, total), total)
    return Bounded(value, np.where(certain, 0.0, np.where(open_ended, np.inf, error)))


def evaluate(expression: Expression, values: Mapping[str, Bounded], kind: DType = fp32) -> Bounded:
    """The expression in float64 with the error of kernels that round it to `kind`; arrays that broadcast, by name.

    A comparison of numbers that may be equal to fp32's accuracy leaves both branches of its `where` possible. A value
    of which nothing is known is 0 here.
    """
    known = {**meanings(kind), "join": _join}
    with np.errstate(all="ignore"):
        given = {name: _limited(*bounded) for name, bounded in values.items()}
        value, error = _evaluate(joined(expression.root), given, known)
    return Bounded(np.where(np.isinf(error), 0.0, value), error)


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
            given = [_evaluate(part, values, known) for part in parts]
            return _with_certain(name, given, _limited(*known[name](*given)))


def _limited(value: Array, error: Array) -> Bounded:
    """The same with an infinite error where a number may be larger than those of fp32, or missing, and need not be."""
    fits = np.abs(value) + error <= FP32_MAX  # false for NaN
    return Bounded(value, np.where(fits | ((error == 0) & ~np.isfinite(value)), error, np.inf))


def _with_certain(name: str, given: Sequence[Bounded], result: Bounded) -> Bounded:
    """The result of an operation, with infinity and NaN where nothing is known of it and yet it must be these."""
    if not np.isinf(result.error).any():
        return result
    value = _certain_branch(*given) if name == "where" else _certain(name, given)
    found = np.isinf(result.error) & ~np.isfinite(value)
    return Bounded(np.where(found, value, result.value), np.where(found, 0.0, result.error))


def _certain(name: str, given: Sequence[Bounded]) -> Array:
    """Infinity or NaN where an operation gives it at both ends of every value's interval, and 0 elsewhere."""
    if name not in _PLAIN:  # functions of one value
        return np.where(_is_missing(given[0]), np.nan, 0.0)
    ends = [_PLAIN[name](*chosen) for chosen in product(*map(_ends, given))]
    beyond = [np.where(np.abs(each) > _BEYOND_FP32, np.copysign(np.inf, each), each) for each in ends]
    same: Array = np.all([are_same(each, beyond[0]) for each in beyond], axis=0)
    for each in given:
        same = same & np.isfinite(each.error)
    return np.where(same, beyond[0], 0.0)


def _certain_branch(condition: Bounded, x: Bounded, y: Bounded) -> Array:
    """Infinity or NaN where the chosen value is certainly that, or both are while the choice is open; 0 elsewhere."""
    sides = [np.where(each.error == 0, each.value, 0.0) for each in (x, y)]
    decided = (condition.error == 0) | are_same(*sides)
    return np.where(decided, np.where(condition.value, *sides), 0.0)


def _ends(x: Bounded) -> tuple[Array, Array]:
    """The ends of an interval. Numbers below TINY may count as zero, unless they are zero."""
    error = np.where((x.value == 0) & (x.error == 0), 0.0, x.error + TINY)
    return x.value - error, x.value + error


def _is_missing(x: Bounded) -> Array:
    """Where a value is certainly NaN."""
    missing: Array = np.isnan(x.value) & (x.error == 0)
    return missing


def are_same(x: Array, y: Array) -> Array:
    """Where numbers are equal, or both are NaN."""
    same: Array = (x == y) | (np.isnan(x) & np.isnan(y))
    return same


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
        error = np.where(np.isinf(x.error), np.inf, error)  # it may also be NaN
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
    "relu": lambda x: Bounded(np.where(x.value < 0, 0.0, x.value), x.error),  # -0 stays
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


def _join(x: Bounded, y: Bounded, z: Bounded) -> Bounded:
    """A product and an addition of it, of which the product alone may be beyond fp32's range."""
    return MEANINGS["+"](_product(x, y), z)


_PLAIN: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "join": lambda x, y, z: x * y + z,
    "negate": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "min": np.minimum,
    "max": np.maximum,
}
"""Operations that kernels compute as IEEE 754 has them for infinity and NaN, and that rise or fall in each value.

The others are finite unless their value is not; what they make of infinity depends on how they are computed.
"""
