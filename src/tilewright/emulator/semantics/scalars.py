"""PTX arithmetic on NumPy arrays; only operations that need more than one NumPy expression.

Functions take and return arrays of lanes or scalars alike. Code generation refers to them by name.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = Any  # an array of lanes or a NumPy scalar of the dtype that the name of the function tells

u1, u2, u4, u8 = np.uint8, np.uint16, np.uint32, np.uint64
i1, i2, i4, i8 = np.int8, np.int16, np.int32, np.int64
f2, f4, f8, b1 = np.float16, np.float32, np.float64, np.bool_

# Floating point ------------------------------------------------------------------------------------------------------


def sum_to_odd(a: Values, b: Values) -> Values:
    """a + b of float64, rounded to odd: rounding that to a narrower type is as good as rounding the exact sum.

    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
    """
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = np.asarray(total).view(i8)
    inexact = (error != 0) & np.isfinite(total) & (bits & i8(1) == 0)
    step = np.where((error > 0) == (total > 0), i8(1), i8(-1))
    return np.where(inexact, (bits + step).view(f8), total)


def fused(a: Values, b: Values, c: Values) -> Values:
    """fma.rn of float32: the product is exact in float64, and so is the sum where a second rounding would differ."""
    total = np.multiply(a, b, dtype=f8)
    total = total + c
    bits = np.asarray(total).view(u8)
    halfway = bits & u8(0x1FFFFFFF) == u8(0x10000000)
    if halfway.any() or ((bits << u8(1)) - u8(1) < _SUBNORMAL_BITS).any():
        total = sum_to_odd(np.multiply(a, b, dtype=f8), c.astype(f8))
    return total.astype(f4)


_SUBNORMAL_BITS = (np.float64(2.0**-126).view(u8) << u8(1)) - u8(1)


def two_sum(x: Values, y: Values) -> tuple[Values, Values]:
    """x + y of float64, and the error of that (source: as for sum_to_odd)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(a: Values, b: Values) -> tuple[Values, Values]:
    """a * b of float64, and the error of that from products of halves (source: as for sum_to_odd); see leaves_range."""

    def split(x: Values) -> tuple[Values, Values]:
        scaled = x * f8(2**27 + 1)
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def leaves_range(a: Values, b: Values, product: Values, *terms: Values) -> Values:
    """Whether a half of a factor or the error of a product, or of a sum with these terms, may leave that of float64."""
    largest = reduce(np.maximum, map(np.abs, (a, b, product, *terms)))
    return ((np.abs(product) < 2.0**-900) & (a != 0) & (b != 0)) | (largest > 2.0**990)


def fused_double(a: Values, b: Values, c: Values) -> Values:
    """fma.rn of float64, from errors of sums and products; where these would leave the range, fractions give it."""
    product, product_error = two_product(a, b)
    sum_low, sum_low_error = two_sum(c, product_error)
    sum_high, sum_high_error = two_sum(product, sum_low)
    total = sum_high + sum_to_odd(sum_low_error, sum_high_error)
    finite_product = np.isfinite(a) & np.isfinite(b)
    finite = finite_product & np.isfinite(c)
    total = np.where(finite, total, np.where(finite_product, c, product + c))
    extreme = finite & leaves_range(a, b, product, c)
    return _fused_fractions(a, b, c, total, extreme) if extreme.any() else total


def _fused_fractions(a: Values, b: Values, c: Values, total: Values, chosen: Values) -> Values:
    """`total` with a * b + c, rounded to nearest, where chosen; sums of zero have the sign that float64 gives them."""
    a, b, c, chosen = np.broadcast_arrays(a, b, c, chosen)
    result = np.array(np.broadcast_to(total, chosen.shape))
    for lane in map(tuple, np.argwhere(chosen)):
        exact = Fraction(float(a[lane])) * Fraction(float(b[lane])) + Fraction(float(c[lane]))
        try:
            result[lane] = float(exact) if exact else a[lane] * b[lane] + c[lane]
        except OverflowError:
            result[lane] = np.inf if exact > 0 else -np.inf
    return result


def rounded(exact: Values, mode: str, dtype: Any = f4) -> Values:
    """A wider value in `dtype`, rounded to nearest (rn) or in a direction (rz, rm, rp)."""
    nearest = exact.astype(dtype)
    return directed(nearest, nearest > exact, nearest < exact, mode)


def directed(nearest: Values, above: Values, below: Values, mode: str) -> Values:
    """The value rounded to nearest, or its neighbor in a direction if it is above or below the exact one."""
    if mode == "rn":
        return nearest
    dtype = nearest.dtype.type
    low, high = dtype(-np.inf), dtype(np.inf)
    if mode == "rm":
        return np.where(above, np.nextafter(nearest, low), nearest)
    if mode == "rp":
        return np.where(below, np.nextafter(nearest, high), nearest)
    too_large = np.where(nearest > 0, above, below)
    return np.where(too_large, np.nextafter(nearest, dtype(0)), nearest)


def flush(values: Values) -> Values:
    """Float32 subnormals as zeros of the same sign (.ftz)."""
    return np.where(np.abs(values) < f4(2.0**-126), np.copysign(f4(0), values), values)


def flush_rounded(values: Values, exact: Values) -> Values:
    """The same after rounding to nearest: hardware rounds to 24 bits first, so what is still subnormal then is zero."""
    subnormal = np.abs(exact) < 2.0**-126 * (1 - 2.0**-25)
    return np.where(subnormal, np.copysign(f4(0), values), values)


def flush_f16(bits: Values) -> Values:
    """The same for the bits of binary16."""
    return np.where(bits & u2(0x7C00), bits, bits & u2(0x8000))


def minimum(a: Values, b: Values, propagate: bool = False) -> Values:
    """min: the other number if one is NaN, quiet or signaling, unless NaN propagates; -0 is below +0."""
    least = np.minimum(a, b)
    if not propagate:  # np.fmin would return a signaling NaN
        least = np.where(np.isnan(a), b, np.where(np.isnan(b), a, least))
    zeros = np.asarray(least) == 0
    if zeros.any():
        least = np.where(zeros & (a == b), np.copysign(least, np.where(np.signbit(a), a, b)), least)
    return least


def maximum(a: Values, b: Values, propagate: bool = False) -> Values:
    """max, as minimum."""
    return -minimum(-a, -b, propagate)


def xorsign(magnitude: Values, a: Values, b: Values) -> Values:
    """.xorsign.abs: the magnitude with the product of the signs of a and b."""
    return np.where(np.signbit(a) != np.signbit(b), -magnitude, magnitude)


def saturate(values: Values) -> Values:
    """.sat: clamp to [0, 1], NaN to 0."""
    one = values.dtype.type(1)
    return np.where(values > 0, np.minimum(values, one), values.dtype.type(0))


def bf16_to_float(bits: Values) -> Values:
    """bfloat16 bits to float32."""
    return (bits.astype(u4) << u4(16)).view(f4)


def float_to_bf16(values: Values, mode: str = "rn") -> Values:
    """Float32 or float64 to bfloat16 bits; NaN becomes 0x7fff."""
    bits = (narrow_to_odd(values) if values.dtype == f8 else values).view(u4)
    upper, rest = (bits >> u4(16)).astype(u2), bits & u4(0xFFFF)
    match mode:
        case "rn":
            upper = upper + (rest + (bits >> u4(16) & u4(1)) > u4(0x8000))
        case "rp":
            upper = upper + ((rest != 0) & (bits >> u4(31) == 0))
        case "rm":
            upper = upper + ((rest != 0) & (bits >> u4(31) != 0))
        case _:  # rz
            pass
    return np.where(np.isnan(values), u2(0x7FFF), upper.astype(u2))


def narrow_to_odd(values: Values) -> Values:
    """Float64 to float32, rounded to odd (see sum_to_odd)."""
    nearest = np.asarray(values.astype(f4))
    bits = nearest.view(u4) - (np.abs(nearest) > np.abs(values))
    return np.where(nearest != values, bits.astype(u4) | u4(1), bits.astype(u4)).view(f4)


def f16_to_float(bits: Values) -> Values:
    """binary16 bits to float32."""
    return bits.view(f2).astype(f4)


def float_to_f16(values: Values, mode: str = "rn") -> Values:
    """Float32 or float64 to binary16 bits; NaN becomes 0x7fff."""
    return np.where(np.isnan(values), u2(0x7FFF), rounded(values, mode, f2).view(u2))


def float_to_f16_flushed(values: Values) -> Values:
    """The same to nearest with .ftz: hardware rounds to 11 bits first, so what is subnormal still then is zero."""
    subnormal = np.abs(values) < 2.0**-14 * (1 - 2.0**-12)
    return float_to_f16(np.where(subnormal, np.copysign(values.dtype.type(0), values), values))


def low_half(word: Values) -> Values:
    """Bits 0 to 15."""
    return word.astype(u2)


def high_half(word: Values) -> Values:
    """Bits 16 to 31."""
    return (word >> u4(16)).astype(u2)


def pack_halves(low: Values, high: Values) -> Values:
    """high:low."""
    return low.astype(u4) | (high.astype(u4) << u4(16))


def pair(low: Values, high: Values) -> Values:
    """128 bits of two words."""
    both = np.empty(np.broadcast_shapes(np.shape(low), np.shape(high)), [("low", "u8"), ("high", "u8")])
    both["low"], both["high"] = low, high
    return both


def compare(a: Values, relation: str, b: Values) -> Values:
    """setp: ordered comparisons are false for NaN; those with a trailing u, and num and nan, handle it."""
    match relation:
        case "num":
            return ~(np.isnan(a) | np.isnan(b))
        case "nan":
            return np.isnan(a) | np.isnan(b)
        case "ne":  # of floating point: ordered
            return (a < b) | (a > b)
        case "neu":
            return a != b
        case "equ":
            return (a == b) | np.isnan(a) | np.isnan(b)
        case "ltu":
            return ~(a >= b)
        case "leu":
            return ~(a > b)
        case "gtu":
            return ~(a <= b)
        case _:  # geu
            return ~(a < b)


def test_property(a: Values, name: str) -> Values:
    """testp."""
    tests: dict[str, Callable[[Values], Values]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ((x == 0) | (np.abs(x) >= np.finfo(x.dtype).tiny)),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
    }
    return tests[name](a)
