"""The product in float64, and how far from it a correct kernel may be.

A kernel computes out = act(alpha * S + beta * c + bias) with S = sum of k products a * b.

1. **S.** Products of two bf16 or two fp16 numbers are exact in fp32 (8 + 8 and 11 + 11 significant bits); fp32
   products enter a fused multiply-add. Each of the k additions is off by at most one unit in the last place of the
   largest partial sum: rounding costs half of it, and the adders of tensor cores, which align their addends to the
   largest one and truncate with one or two bits to spare, cost less than one. No partial sum exceeds sum |a| |b|,
   so |S' - S| <= (k + 8) * 2^-23 * (|A| @ |B|), where the 8 pays for second-order terms and for the accumulator's own
   alignment in every block of k. Accumulators of fp16 keep 13 bits less, and each addition in them is promised to be
   as good as one in fp16, rounded either way, down to the smallest subnormal: errors of all k additions can grow by
   k more additions, |S' - S| <= k ((1 + 2^-10)^k 2^-10 |A| @ |B| + 2^-24), as long as |A| @ |B| stays so far below
   65504 that no partial sum can become infinite; elsewhere the bound is infinite, which `check` does not accept.
   What tensor cores cut off sums of fp8 is `cut_error`, where `cut_after` says that they do.
2. **Scaling and adding.** alpha and beta are rounded to fp32 first, which the reference does too. Two products and
   two sums round to nearest: at most 4 * 2^-24 * (|alpha| (|A| @ |B|) + |beta c| + |bias|); 6 * 2^-24 are allowed.
3. **Activation.** An error of its argument passes with the slope of the function: 1 for relu, at most 1.13 for gelu
   and 1.10 for silu. Its own evaluation uses approximate exponentials and quotients, relative error below 4e-6
   wherever the result is not tiny; 1 + erf(x) cancels for negative x, which costs up to 2^-22 |x|, and that covers
   the tails too. The gelus of results of 16 bits err by up to an eighth of a step of their type more, and by 2^-20 |x|.
4. **Rounding** to the output dtype: half its spacing, relative to what is rounded, or half its smallest subnormal.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright import dtypes
from tilewright.expression.evaluation import Bounded, evaluate
from tilewright.expression.evaluation import exact as exact_values
from tilewright.reference.bounds import cut_error

ULP = 2.0**-23

SHORTER = {dtypes.bf16: dtypes.bf16.epsilon / 8, dtypes.fp16: dtypes.fp16.epsilon / 8}
"""The relative error of gelu and gelu_tanh where results have 16 bits. There, -inf becomes 0, to which they tend."""

SLOPES = {None: 1.0, "relu": 1.0, "gelu": 1.13, "gelu_tanh": 1.13, "silu": 1.1}


@dataclass(frozen=True)
class Reference:
    """The right result in float64, rounded to nothing, and by how much each element of out may differ from it.

    unknown: elements that may be anything: of an expression, those that are undefined or overflow on the way.
    """

    values: np.ndarray
    bound: np.ndarray
    dtype: dtypes.DType
    unknown: np.ndarray | bool = False


def activate(x, activation):
    """The activation in float64, by its definition: gelu and silu of -inf are NaN, as infinity times zero is."""
    x = np.asarray(x, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if activation is None:
            return x
        if activation == "relu":
            return np.where(x < 0, 0.0, x)
        if activation == "gelu":
            erf = np.fromiter(map(math.erf, (x / math.sqrt(2)).flat), np.float64, x.size).reshape(x.shape)
            return 0.5 * x * (1 + erf)
        if activation == "gelu_tanh":
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        if activation == "silu":
            return x / (1 + np.exp(-x))
    raise AssertionError(activation)


FUNCTIONS = {
    "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "where": np.where,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "rsqrt": lambda x: x**-0.5,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "min": lambda *values: functools.reduce(np.minimum, values),
    "max": lambda *values: functools.reduce(np.maximum, values),
    **{name: functools.partial(activate, activation=name) for name in SLOPES if name},
}  # fmt: skip
"""What the functions of expressions mean, as NumPy knows them."""


def reference(
    a, b, *, out_dtype, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, expression=None, operands=None,
    accumulator=dtypes.fp32, cut_after=None, exact=False, out_scale=None,
) -> Reference:  # fmt: skip
    """act(alpha * a @ b + beta * c + bias) for arrays of any dtype, with the bound derived above; or an expression.

    `exact` says that nothing rounds before the last step (small integers, dyadic scalars, no transcendental
    activation): the result must then be the correctly rounded one. `cut_after`: see `cut_error`; such sums are not.
    `out_scale`: what results of fp8 are divided by.
    """
    dtype = dtypes.parse(out_dtype, "out_dtype")
    if dtype in dtypes.FP8:
        wide = reference(
            a, b, out_dtype="fp32", c=c, bias=bias, alpha=alpha, beta=beta, activation=activation,
            expression=expression, operands=operands, accumulator=accumulator, cut_after=cut_after, exact=exact,
        )  # fmt: skip
        return _narrowed(wide, dtype, 1.0 if out_scale is None else float(out_scale))
    alpha, beta = float(np.float32(alpha)), float(np.float32(beta))
    k = a.shape[-1] if alpha != 0 else 0
    a, b = (np.asarray(x, np.float64) if k else np.zeros(x.shape) for x in (a, b))
    with np.errstate(invalid="ignore", over="ignore"):
        added = np.zeros(()) if beta == 0 else beta * np.asarray(c, np.float64)
        magnitude = abs(added)
        if bias is not None:
            added = added + np.asarray(bias, np.float64)
            magnitude = magnitude + abs(np.asarray(bias, np.float64))
        argument = alpha * (a @ b) + added
        values = activate(argument, activation)
        if exact and cut_after is None:
            return Reference(values, np.zeros_like(values), dtype)
        sums = abs(a) @ abs(b)
        products = abs(alpha) * sums
        error = (k + 8) * ULP * products
        if cut_after is not None:
            cut = cut_error(np.atleast_2d(a), b if b.ndim > 1 else b[:, None], cut_after)
            error = error + abs(alpha) * cut.reshape(error.shape)
        if accumulator is dtypes.fp16:
            unit, growth = dtypes.fp16.epsilon, (1 + dtypes.fp16.epsilon) ** k
            error = error + abs(alpha) * k * (growth * unit * sums + 2.0**-24)
            error[growth * sums >= overflow_threshold(dtypes.fp16)] = np.inf
        if expression is not None:
            return _of_expression(expression, argument, error + 3 * ULP * products, operands, dtype)
        bound = SLOPES[activation] * (error + 3 * ULP * (products + magnitude))
        if activation not in (None, "relu"):
            bound = bound + 4e-6 * abs(values) + 2 * ULP * abs(argument)
        if activation in ("gelu", "gelu_tanh") and dtype in SHORTER:
            values = np.where(np.isneginf(argument), 0.0, values)
            bound = bound + SHORTER[dtype] * abs(values) + 2.0**-20 * abs(argument)
        bound = bound + rounding(abs(values) + bound, dtype)
    return Reference(values, bound, dtype)


def _narrowed(wide: Reference, dtype, scale) -> Reference:
    """Results divided by their scale, by way of its reciprocal, and brought into the range of an fp8 type."""
    largest = float(ml_dtypes.finfo(dtype.numpy_dtype).max)
    values, bound = np.clip(wide.values / scale, -largest, largest), wide.bound / scale
    if bound.any():
        bound = bound + 2 * ULP * abs(values)
        bound = bound + rounding(abs(values) + bound, dtype)
    return Reference(values, bound, dtype, wide.unknown)


def _of_expression(expression, acc, error, operands, dtype) -> Reference:
    """The value that Python gives the text of the expression, and the package's bound of it."""
    known = {name: np.asarray(array, np.float64) for name, array in operands.items()}
    half = acc.shape[-1] // 2
    sides: dict[str | None, list[Any]] = {
        None: [np.s_[...]],
        "interleaved": [np.s_[..., 0::2], np.s_[..., 1::2]],
        "stacked": [np.s_[..., :half], np.s_[..., half:]],
    }
    named = dict(zip(expression.sums, sides[expression.gate], strict=True))
    sums = {name: acc[side] for name, side in named.items()}
    values = np.asarray(eval(str(expression), FUNCTIONS, {**sums, **known}), np.float64)
    bounded = {name: exact_values(array) for name, array in known.items()}
    bounded |= {name: Bounded(acc[side], error[side]) for name, side in named.items()}
    bound = np.broadcast_to(evaluate(expression, bounded, dtype).error, values.shape)
    unknown = np.isinf(bound) | ~np.isfinite(values)
    return Reference(values, bound + rounding(abs(values) + bound, dtype), dtype, unknown)


def rounding(magnitude, dtype: dtypes.DType):
    """The most that rounding a number of this magnitude to `dtype` moves it."""
    smallest = float(ml_dtypes.finfo(dtype.numpy_dtype).smallest_subnormal)
    return dtype.epsilon / 2 * magnitude + smallest / 2


def overflow_threshold(dtype: dtypes.DType):
    """The least magnitude that rounds to infinity: half a step beyond the largest finite number."""
    if dtype.kind == "integer":
        return math.inf
    largest = float(ml_dtypes.finfo(dtype.numpy_dtype).max)
    return largest * (1 + dtype.epsilon / (4 - 2 * dtype.epsilon))


def check(out, expected: Reference, what: object = "out") -> None:
    """Raise an AssertionError that shows the worst element where `out` is outside the bound.

    NaN must be NaN and infinities must agree in sign; a finite number may have overflowed to infinity only if the
    bound reaches beyond the largest finite number.
    """
    out = np.asarray(out)
    assert out.shape == expected.values.shape, f"{what} has shape {out.shape}, not {expected.values.shape}"
    if not out.size:
        return
    limit = overflow_threshold(expected.dtype)
    values = expected.values
    if not expected.bound.any():
        with np.errstate(over="ignore"):
            values = values.astype(expected.dtype.numpy_dtype).astype(np.float64)
    actual = out.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = abs(actual - values) <= expected.bound
        same = (actual == values) | (np.isnan(actual) & np.isnan(values))
        overflowed = np.isinf(actual) & (np.sign(actual) * values + expected.bound >= limit)
        right = expected.unknown | same | (np.isfinite(expected.bound) & (near | overflowed))
    if right.all():
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(right, -np.inf, np.nan_to_num(abs(actual - values) / expected.bound, nan=np.inf))
    index = tuple(int(i) for i in np.unravel_index(np.argmax(excess), out.shape))
    raise AssertionError(
        f"{what}{list(index)} is {float(actual[index])}, expected {float(values[index])} within "
        f"{expected.bound[index]:.3g}; "
        f"{np.count_nonzero(~right)} of {out.size} elements are wrong"
    )
