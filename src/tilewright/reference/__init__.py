"""The product in float64, and the error that a correct kernel may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dtypes import FP8, DType, fp32, int32, parse
from tilewright.expression.evaluation import FP32_MAX, Bounded, are_same, evaluate, exact, meanings, summed
from tilewright.expression.evaluation import Array as Array
from tilewright.expression.tree import HIDDEN, OUT_SCALE, SCALES, Expression
from tilewright.problem import RECIPES, Epilogue, key_of
from tilewright.reference.bounds import column_sum_bound, stored_bound, sum_bound

FULL_REFERENCE_FLOPS = 2 * 1024**3
"""Products up to this size are compared completely, larger ones on sampled rows and columns."""

SAMPLED_LINES = 48
"""Number of rows, and of columns, that are compared of a larger product, always with the first and the last."""

_NO_EPILOGUE = Epilogue()
_NO_ADDENDS: Mapping[str, Array] = {}
_NOTHING: Array = np.zeros(())


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between a result and the reference.

    verified: every compared element is within its own bound; None if there are elements, and none can be compared.
    relative_error, error_bound: Frobenius norms of the differences and of the bounds, divided by the reference's; of
    finite numbers alone.
    elements: number of compared elements.
    special: how many of these must be infinite or NaN, and are if the result is verified.
    uncertain: number of elements that were left out, since they may overflow or be NaN, and nothing is known of them.
    """

    verified: bool | None
    relative_error: float
    error_bound: float
    elements: int
    special: int = 0
    uncertain: int = 0


def compare(
    out: Array,
    a: Array,
    b: Array,
    epilogue: Epilogue = _NO_EPILOGUE,
    addends: Mapping[str, Array] = _NO_ADDENDS,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    accumulator: Any = fp32,
    cut_after: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare out (m, n), summed in `accumulator`, with the epilogue of a (m, k) @ b (k, n) in float64.

    All three may be batches of as many; what their epilogues read, they share.

    addends: arrays for what the epilogue reads, by `Epilogue.read`'s names, which broadcast to out, or are scales;
    others are ignored. Sums of int8 are exact, whatever the accumulator. cut_after: see `sum_bound`.
    Products above FULL_REFERENCE_FLOPS are compared on SAMPLED_LINES rows and columns drawn by `seed`.
    """
    *_, m, n = out.shape
    gate = None if epilogue.expression is None else epilogue.expression.gate
    accumulator = _accumulator(a, accumulator)
    added = {name: np.broadcast_to(addends[name], out.shape) for name, _ in epilogue.read() if name not in HIDDEN}
    of_out = {name: addends[name] for name in (OUT_SCALE,) if name in addends}
    everything = slice(None)
    if 2 * out.size * a.shape[-1] <= FULL_REFERENCE_FLOPS:
        parts: list[tuple[Any, Any]] = [(everything, everything)]
    else:
        rng = np.random.default_rng(seed)
        rows, columns = sampled_lines(rng, m), sampled_lines(rng, n)
        parts = [(rows, everything), (np.setdiff1d(np.arange(m), rows), columns)]
    sums, verified = np.zeros(6), True
    for index in np.ndindex(out.shape[:-2]):
        one_a, one_b = dequantized(a[index], b[index], epilogue, addends)
        for rows, columns in parts:
            expected, bound = reference(
                one_a[rows],
                one_b[:, columns_of_b(gate, n, columns)],
                epilogue,
                {name: array[index][rows][:, columns] for name, array in added.items()} | of_out,
                alpha=alpha,
                beta=beta,
                accumulator=accumulator,
                cut_after=cut_after,
                out_dtype=out.dtype,
            )
            known, special = ~np.isinf(bound), ~np.isfinite(expected)
            found = out[index][rows][:, columns].astype(np.float64)
            verified &= bool(np.all(agree(found, expected, bound)))
            error, bound, expected = (each[known & ~special] for each in (_distances(found, expected), bound, expected))
            squares = [np.sum(each**2) for each in (error, bound, expected)]
            sums += np.array([*squares, np.sum(known), np.sum(special), np.sum(~known)])
    norm = sqrt(sums[2]) or 1.0
    compared, special_ones, uncertain = map(int, sums[3:])
    return Comparison(
        None if compared == 0 < uncertain else verified,
        sqrt(sums[0]) / norm,
        sqrt(sums[1]) / norm,
        compared,
        special_ones,
        uncertain,
    )


def agree(found: Array, expected: Array, bound: Array) -> Array:
    """Per element, whether a result is what `reference` expects within its bound, the same infinity or NaN included.

    So is any result where the bound is infinite, since nothing is known there.
    """
    right: Array = are_same(found, expected) | (_distances(found, expected) <= bound)  # False for NaN
    return right | np.isinf(bound)


def _distances(found: Array, expected: Array) -> Array:
    """NaN for equal infinities."""
    with np.errstate(invalid="ignore"):
        distances: Array = np.abs(found - expected)
    return distances


def reference(
    a: Array,
    b: Array,
    epilogue: Epilogue = _NO_EPILOGUE,
    addends: Mapping[str, Array] = _NO_ADDENDS,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    accumulator: Any = fp32,
    cut_after: int | None = None,
    out_dtype: Any,
) -> tuple[Array, Array]:
    """The epilogue of a @ b in float64, and per element the error that a correct `out_dtype` result may have.

    addends: arrays of out's shape for what the epilogue reads, by `Epilogue.read`'s names; scales as they are given.
    cut_after: see `sum_bound`. What must be infinite or NaN is expected to be it, within 0. The error is infinite, and
    0 is expected, where nothing is known: of what may overflow or be NaN, and may not. With an alpha or a beta of 0,
    neither a and b nor c is read.
    """
    kind, accumulator = parse(out_dtype, "out_dtype"), _accumulator(a, accumulator)
    a, b = dequantized(a, b, epilogue, addends)
    a, b = a.astype(np.float64), b.astype(np.float64)
    if kind is int32:
        total = alpha * (a @ b)
        return total, np.zeros_like(total)
    with np.errstate(all="ignore"):
        result = _finished(*_sums(a, b, accumulator, cut_after, alpha), epilogue, addends, beta, kind)
    return stored(kind, result)


def _sums(a: Array, b: Array, accumulator: DType, cut_after: int | None, alpha: float) -> Bounded:
    """alpha * a @ b in float64, with the error of a kernel's sums."""
    if alpha == 0:
        return exact(np.zeros((a.shape[0], b.shape[1])))
    finite_a, finite_b = (np.where(np.isfinite(each), each, 0.0) for each in (a, b))
    sums = Bounded(a @ b, sum_bound(finite_a, finite_b, accumulator, cut_after))
    if not a.shape[1] * np.abs(a).max(initial=0.0) * np.abs(b).max(initial=0.0) <= FP32_MAX / 2:
        sums = summed(*sums, np.abs(finite_a) @ np.abs(finite_b))
    return Bounded(alpha * sums.value, abs(alpha) * sums.error)


def _finished(
    sums: Array, error: Array, epilogue: Epilogue, addends: Mapping[str, Array], beta: float, kind: DType
) -> Bounded:
    """What the epilogue makes of scaled sums, before it is rounded to `kind`."""
    total, magnitude = sums, _finite_magnitude(sums)
    for name, factor in (("c", beta), ("bias", 1.0)):
        if getattr(epilogue, name) is not None and factor != 0:
            addend = factor * addends[name].astype(np.float64)
            total, magnitude = total + addend, magnitude + _finite_magnitude(addend)
    result = summed(total, error + 2.0**-22 * magnitude, magnitude)
    if epilogue.expression is not None:
        named = {name: addends[key_of(name)] for name in epilogue.expression.named}
        result = applied(epilogue.expression, result, named, kind)
    elif epilogue.activation is not None:
        result = meanings(kind)[epilogue.activation](result)
    if kind in FP8:
        result = narrowed(result, addends.get(OUT_SCALE), kind)
    return result


def _finite_magnitude(values: Array) -> Array:
    """Magnitudes, 0 of what has none."""
    magnitude: Array = np.where(np.isfinite(values), np.abs(values), 0.0)
    return magnitude


def narrowed(result: Bounded, scale: Array | None, kind: DType) -> Bounded:
    """Results divided by their scale, if they have one, and brought into the range of an fp8 type."""
    value, error = result
    if scale is not None:  # kernels multiply by its reciprocal: two roundings
        value = value / float(np.asarray(scale).item())
        rounded = error / float(np.asarray(scale).item()) + 2.0**-22 * np.abs(value)
        error = np.where(np.isfinite(value), rounded, error)
    largest = largest_of(kind)
    return Bounded(np.clip(value, -largest, largest), error)


def stored(kind: DType, result: Bounded) -> Bounded:
    """Results as numbers of `kind`, with the error of rounding. What is beyond its range is infinite, except of fp8."""
    value, error = np.broadcast_arrays(*result)
    bound = np.where(np.isfinite(value), stored_bound(kind, value, error), error)
    if kind not in FP8:
        largest = largest_of(kind)
        with np.errstate(invalid="ignore"):  # of infinite values of which nothing is known
            beyond = np.abs(value) - error >= largest * (1 + kind.epsilon / 2)
        value = np.where(beyond, np.copysign(np.inf, value), value)
        bound = np.where(beyond, 0.0, np.where(np.abs(value) + error > largest, np.inf, bound))
    return Bounded(np.where(np.isinf(bound), 0.0, value), bound)


def largest_of(kind: DType) -> float:
    """The largest number of a type of floating-point numbers."""
    return float(ml_dtypes.finfo(kind.numpy_dtype).max)


def dequantized(a: Array, b: Array, epilogue: Epilogue, addends: Mapping[str, Array]) -> tuple[Array, Array]:
    """The numbers that codes a (m, k) and b (k, n) stand for, in float64, where addends have their scales.

    Rows and columns of a whole product are scaled behind its sums, which is the same in exact arithmetic.
    """
    expression = epilogue.expression
    if expression is None or expression.recipe is None or SCALES[0] not in addends:
        return a, b
    scaled = []
    if expression.has_zero:
        a = a.astype(np.float64) - addends["zero_a"].astype(np.float64).reshape(-1, 1)
    for codes, name, blocks in zip((a, b), SCALES, RECIPES[expression.recipe], strict=True):
        scale = addends[name].astype(np.float64).reshape(blocks.shape(*codes.shape))
        for axis, size in enumerate(blocks):
            if size is not None:
                scale = np.repeat(scale, size, axis).take(np.arange(codes.shape[axis]), axis)
        scaled.append(codes.astype(np.float64) * scale)
    return scaled[0], scaled[1]


def _accumulator(a: Array, wanted: Any) -> DType:
    """The type in which products of a are added."""
    return int32 if a.dtype == np.int8 else parse(wanted, "accumulator")


def applied(expression: Expression, sums: Bounded, operands: Mapping[str, Array], kind: DType) -> Bounded:
    """What an expression makes of sums (m, n), with the errors of both, before it is rounded to `kind`.

    operands: arrays that broadcast to the result, by the names that the expression has for them.
    """
    sides = (Bounded(*(each[:, chosen] for each in sums)) for chosen in _sides(expression.gate, sums.value.shape[1]))
    values = {name: exact(operands[name]) for name in expression.named}
    return evaluate(expression, dict(zip(expression.sums, sides, strict=True)) | values, kind)


def outputs_agree(out: Array, outputs: Mapping[str, Array], kind: DType) -> bool:
    """Whether outputs that follow from the results agree with them, as far as rounding lets them differ.

    out: the results (m, n), rounded to `kind`; outputs: `amax` and `column_sums` by their names; float64 arrays.
    The outputs are of results that are not rounded. So one that is infinite, or cut to the largest number of fp8, may
    be of any number from the largest of `kind` on.
    """
    low, high = _before_rounding(out, kind)
    ends = np.abs(low), np.abs(high)
    least = np.where(np.isfinite(low), ends[0], np.where(np.isfinite(high), ends[1], 0.0))
    moved = stored_bound(kind, least, 0.0).sum(axis=0)  # of a column, by rounding its results
    off = moved + column_sum_bound(len(out)) * (least.sum(axis=0) + moved)
    with np.errstate(invalid="ignore"):  # infinities of both signs add up to NaN
        sums = low.sum(axis=0), high.sum(axis=0)
    may_overflow = (least.sum(axis=0) + off > FP32_MAX) | (np.isneginf(sums[0]) & np.isposinf(sums[1]))
    right = {
        "amax": _is_between(
            outputs.get("amax", _NOTHING),
            np.minimum(*ends).max(initial=0.0),
            np.maximum(*ends).max(initial=0.0),
            stored_bound(kind, least.max(initial=0.0), 0.0),
        ),
        "column_sums": _is_between(outputs.get("column_sums", _NOTHING), *sums, off)
        | (may_overflow & ~np.isnan(sums[0])),
    }
    return all(bool(np.all(right[name])) for name in outputs)


def _before_rounding(out: Array, kind: DType) -> tuple[Array, Array]:
    """The least and the largest number that each result may have been, rounding apart; fp32 is not rounded."""
    if kind is fp32:
        return out, out
    largest = largest_of(kind)
    low = np.where(out >= largest, largest, np.where(out <= -largest, -inf, out))
    high = np.where(out >= largest, inf, np.where(out <= -largest, -largest, out))
    return low, high


def _is_between(found: Array, low: Array, high: Array, bound: Array) -> Array:
    """Where numbers lie between two ends, which may be off by the bound; NaN where the ends are."""
    inside: Array = np.where(np.isnan(low), np.isnan(found), (low - bound <= found) & (found <= high + bound))
    return inside


def columns_of_b(gate: str | None, n: int, columns: Any) -> Any:
    """The columns of b from which `columns` of a result of n come, in such an order that the same gate makes them."""
    if gate is None or isinstance(columns, slice):
        return columns
    x, y = (np.arange(2 * n)[side][columns] for side in _sides(gate, 2 * n))
    return np.stack([x, y], axis=1).ravel() if gate == "interleaved" else np.concatenate([x, y])


def _sides(gate: str | None, n: int) -> tuple[slice, ...]:
    """The columns of each sum that an expression reads, of n columns."""
    sides = {"interleaved": (slice(0, n, 2), slice(1, n, 2)), "stacked": (slice(0, n // 2), slice(n // 2, n))}
    return (slice(None),) if gate is None else sides[gate]


def sampled_lines(rng: np.random.Generator, extent: int, most: int = SAMPLED_LINES) -> Array:
    """At most so many rows or columns in order, the first and the last among them."""
    if extent <= most:
        return np.arange(extent)
    inner = rng.choice(extent - 2, most - 2, replace=False) + 1
    return np.concatenate([[0], np.sort(inner), [extent - 1]])
