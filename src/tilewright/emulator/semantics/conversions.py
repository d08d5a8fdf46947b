"""PTX conversions (cvt) on NumPy arrays of lanes or scalars; only those that need more than one NumPy expression."""

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.emulator.semantics.scalars import (
    Values,
    directed,
    f4,
    f8,
    float_to_f16,
    i8,
    pack_halves,
    u1,
    u2,
    u4,
    u8,
)

_PACKED_FLOAT8 = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}
TF32_BITS = u4(0xFFFFE000)
"""The bits of a float32 that tf32 keeps."""
_LARGEST = {"f16": f4(65504), "bf16": u4(0x7F7F0000).view(f4), "tf32": u4(0x7F7FE000).view(f4)}


def float_to_integer(values: Values, mode: str, dtype: Any) -> Values:
    """cvt to an integer type: rounded and clamped to its range.

    NaN is 0, but the top bit alone from float64 or to 64 bits (PTX ISA, "cvt").
    """
    info = np.iinfo(dtype)
    whole = _ROUND_TO_INTEGER[mode](values.astype(f8))
    inside = np.where((whole >= float(info.min)) & (whole < float(info.max)), whole, 0.0).astype(dtype)
    clamped = np.where(
        whole >= float(info.max), dtype(info.max), np.where(whole <= float(info.min), dtype(info.min), inside)
    )
    if info.bits < 64 and values.dtype != f8:
        return clamped
    top = u8(1 << info.bits - 1).astype(f"u{info.bits // 8}").view(dtype)
    return np.where(np.isnan(values), top, clamped)


def float_to_whole(values: Values, mode: str) -> Values:
    """cvt.rni and the like between floating-point types: the nearest whole number in a direction."""
    return _ROUND_TO_INTEGER[mode](values)


_ROUND_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(values: Values, dtype: Any) -> Values:
    """cvt.sat between integer types."""
    info = np.iinfo(dtype)
    low, high = max(info.min, np.iinfo(values.dtype).min), min(info.max, np.iinfo(values.dtype).max)
    return np.clip(values, values.dtype.type(low), values.dtype.type(high)).astype(dtype)


def integer_to_float(values: Values) -> Values:
    """Any integers as float64; those with more than 53 bits are rounded to odd, for a narrower type that follows."""
    if values.dtype.itemsize < 8:
        return values.astype(f8)
    kind = values.dtype.type
    large = values.view(u8) + u8(1 << 53) > u8(1 << 54) if values.dtype == i8 else values > kind(1 << 53)
    scaled = values >> kind(11) | (values & kind(0x7FF) != 0)
    return np.where(large, scaled.astype(f8) * f8(2048), values.astype(f8))


def integer_to_double(values: Values, mode: str) -> Values:
    """cvt of any integers to float64: the sum of their upper and lower 32 bits, with its error, rounded as asked."""
    wide = values.astype(np.dtype(f"{values.dtype.kind}8"))
    kind = wide.dtype.type
    high, low = (wide >> kind(32)).astype(f8) * f8(1 << 32), (wide & kind(0xFFFFFFFF)).astype(f8)
    nearest = high + low
    error = low - (nearest - high)
    return directed(nearest, error < 0, error > 0, mode)


def clamp_finite(values: Values, kind: str) -> Values:
    """.satfinite: values beyond a type's range become its largest finite value; NaN stays."""
    largest = _LARGEST[kind]
    return np.clip(values, -largest, largest)


def float_to_tf32(values: Values, mode: str) -> Values:
    """cvt to tf32: 10 bits of mantissa, ties away from zero (rna), to even (rn), or cut (rz); bits of a float32."""
    bits = values.view(u4)
    half = {"rna": u4(0x1000), "rn": u4(0xFFF) + (bits >> u4(13) & u4(1)), "rz": u4(0)}[mode]
    rounded = np.where(np.isfinite(values), bits + half & TF32_BITS, bits)
    return np.where(np.isnan(values), u4(0x7FFFFFFF), rounded)


def floats_to_float8(high: Values, low: Values, kind: str) -> Values:
    """cvt.rn.satfinite of two float32 to e4m3x2 or e5m2x2."""
    dtype = _PACKED_FLOAT8[kind]
    largest = f4(ml_dtypes.finfo(dtype).max)

    def convert(values: Values) -> Values:
        bits = np.asarray(np.clip(values, -largest, largest)).astype(dtype).view(u1)
        return np.where(np.isnan(values), u1(0x7F), bits).astype(u2)

    return convert(low) | (convert(high) << u2(8))


def float8_to_halves(pair: Values, kind: str, relu: bool) -> Values:
    """cvt.rn.f16x2 from e4m3x2 or e5m2x2."""

    def convert(byte: Values) -> Values:
        values = np.asarray(byte.astype(u1)).view(_PACKED_FLOAT8[kind]).astype(f4)
        return float_to_f16(np.maximum(values, f4(0)) if relu else values)

    return pack_halves(convert(pair), convert(pair >> u2(8)))
