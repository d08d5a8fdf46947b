"""The error that correct sums and results may have."""

from math import inf, sqrt
from typing import Any

from tilewright.dtypes import DType, fp8_e4m3, fp8_e5m2, fp16, fp32, int32

_LAMBDA = 8
"""A sum of errors of either sign practically never exceeds this many times the root of the sum of their squares."""

_BLOCK = 16
"""Number of products that one mma of 16-bit floats, m16n8k16, adds per element."""

_FP8_BLOCK = 32
"""Number of products that one wgmma of fp8 adds per element."""

_FP8_STEP = 2.0**-13
"""The least part of the largest term of a sum of fp8 that the tensor cores of sm_89 and sm_90 keep."""


def sum_bound(a: Any, b: Any, accumulator: DType = fp32, cut_after: int | None = None) -> Any:
    """The error that a correct sum of a (m, k) @ b (k, n) may have; float64 arrays of any library.

    cut_after: so many products of fp8 are added in tensor cores that cut their sums, until fp32 takes over; None where
    nothing cuts them. See `cut_error`.

    For fp16 sums see `_fp16_sum_error`. Those in int32 are exact, and a @ b may lose what float64 does of scaled codes:
    where such a sum is 0, a @ b mostly is not. In fp32, where tensor cores may truncate, each of at
    most k steps adds an error of at most 2^-23 of a partial sum. Beyond 64 steps the bound grows with sqrt(k) instead,
    as errors of either sign do (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019, with
    lambda = 8). This assumes random operands.
    """
    k = a.shape[1]
    if accumulator is fp16:
        return _fp16_sum_error(a, b)
    if accumulator is int32:
        return (k + 1) * 2.0**-53 * (abs(a) @ abs(b))
    error = min(k, _LAMBDA * sqrt(k)) * 2.0**-23 * (abs(a) @ abs(b))
    return error if cut_after is None else error + cut_error(a, b, cut_after)


def cut_error(a: Any, b: Any, cut_after: int) -> Any:
    """What tensor cores of sm_90 may cut off sums of fp8, a (..., m, k) @ b (..., k, n); float64, of any library.

    A wgmma adds 32 products to the sum so far. It aligns all 33 to the largest and keeps 13 bits behind that one's
    first, and as many of the new sum (docs/precision.md). So each loses less than 2^-13 of the largest, which no
    product of the largest factors and no sum so far exceeds. After `cut_after` products a sum begins anew.
    What products lose has either sign, as they have, and grows as in `sum_bound`; what sums lose adds up.
    """
    error = linear = squares = of_sums = total = a[..., :0] @ b[..., :0, :]
    for start in range(0, a.shape[-1], _FP8_BLOCK):
        if start % cut_after == 0:
            total = 0.0 * total
        block_a, block_b = a[..., start : start + _FP8_BLOCK], b[..., start : start + _FP8_BLOCK, :]
        largest = (_largest(block_a, -1)[..., None] * _largest(block_b, -2)[..., None, :]).clip(min=abs(total) + error)
        total = total + block_a @ block_b
        step, count = _FP8_STEP * largest, block_a.shape[-1]
        linear, squares = linear + count * step, squares + count * step**2
        of_sums = of_sums + step + _FP8_STEP * (abs(total) + error)
        error = of_sums + linear.clip(max=_LAMBDA * squares**0.5)
    return error


def _largest(values: Any, axis: int) -> Any:
    """The largest magnitude along an axis, which torch calls `amax` and NumPy `max`."""
    magnitudes = abs(values)
    return getattr(magnitudes, "amax", magnitudes.max)(axis)


def stored_bound(kind: DType, expected: Any, error: Any) -> Any:
    """The error of a result that is computed within `error` of `expected` and stored as `kind`; any array library.

    Whole numbers are stored as they are.
    """
    if kind.kind == "integer":
        return error
    smallest = _SMALLEST.get(kind, 2.0**-133)
    return error + kind.epsilon / 2 * (abs(expected) + error) + smallest


_SMALLEST = {fp16: 2.0**-24, fp8_e4m3: 2.0**-9, fp8_e5m2: 2.0**-16}
"""The smallest positive numbers of types that results may well be as small as."""


def _fp16_sum_error(a: Any, b: Any) -> Any:
    """The error that a sum of a @ b in fp16 accumulators may have; float64 (m, k) and (k, n).

    PTX promises that products are exact and that each addition is as good as one in fp16, in any order within an
    instruction and with any rounding (PTX ISA, "mma": floating point). An instruction adds _BLOCK products to its input
    sum. So no partial sum in it exceeds |input sum| + |A| |B| of the block. Each addition errs by at most one unit in
    the last place, which is 2^-10 of that bound, or 2^-24 among subnormal numbers. The input sum carries the error so
    far. Errors add up; if they have either sign, they grow with the root of their squares instead, as in fp32.

    The error is infinite if a partial sum may round to infinity, from 65520 on; nothing is known of such an element.
    """
    linear = squares = error = total = largest = a[:, :0] @ b[:0]
    for start in range(0, a.shape[1], _BLOCK):
        block_a, block_b = a[:, start : start + _BLOCK], b[start : start + _BLOCK]
        partial = abs(total) + error + abs(block_a) @ abs(block_b)
        step = 2.0**-10 * partial + 2.0**-24
        count = block_a.shape[1]
        linear, squares = linear + count * step, squares + count * step**2
        error = linear.clip(max=_LAMBDA * squares**0.5)
        total = total + block_a @ block_b
        largest = largest.clip(min=partial + count * step)
    error[largest >= 65520] = inf
    return error


def column_sum_bound(rows: int) -> float:
    """The error that a correct sum of so many fp32 numbers may have, by the sum of their magnitudes.

    Each is in 4 additions in its group of 16, in one for every 32 groups, and in up to 31 of the sums of these.
    """
    return (4 + rows / 512 + 32) * 2.0**-24
