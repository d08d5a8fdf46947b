"""What PTX arithmetic means on NumPy arrays, where it is not one NumPy expression.

Functions take and return arrays of lanes or scalars alike. Code generation refers to them by name.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Values: TypeAlias = Any  # an array of lanes or a NumPy scalar of the dtype that the name of the function tells

u1, u2, u4, u8 = np.uint8, np.uint16, np.uint32, np.uint64
i1, i2, i4, i8 = np.int8, np.int16, np.int32, np.int64
f2, f4, f8, b1 = np.float16, np.float32, np.float64, np.bool_

_NUMPY_BF16 = ml_dtypes.bfloat16
_PACKED_FLOAT8 = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}


def _bits(values: Values) -> int:
    return 8 * int(values.dtype.itemsize)


# Integers ----------------------------------------------------------------------------------------------------------


def divide(a: Values, b: Values) -> Values:
    """Quotient rounded towards zero; division by zero gives all ones, as the hardware does."""
    quotient = np.where(b == 0, a.dtype.type(0), a) // np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "i":
        inexact = quotient * b != a
        quotient = quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def remainder(a: Values, b: Values) -> Values:
    """a - b * divide(a, b), which has the sign of a."""
    return np.where(b == 0, a, a - b * divide(a, np.where(b == 0, b.dtype.type(1), b)))


def multiply_high(a: Values, b: Values) -> Values:
    """The upper half of the double-width product."""
    bits = _bits(a)
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{bits // 4}").type
        return (a.astype(wide) * b.astype(wide) >> wide(bits)).astype(a.dtype)
    mask, half = u8(0xFFFFFFFF), u8(32)
    x, y = a.view(u8), b.view(u8)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    high = x1 * y1 + (middle >> half) + ((middle & mask) + x0 * y1 >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, u8(0)) - np.where(b < 0, x, u8(0))
    return high.view(a.dtype)


def widen(a: Values) -> Values:
    """The same integers in twice the width."""
    return a.astype(np.dtype(f"{a.dtype.kind}{_bits(a) // 4}"))


def shift_left(a: Values, count: Values) -> Values:
    """a << count, zero from the width on. count is unsigned 32 bits."""
    bits = _bits(a)
    return np.where(count < bits, a << np.minimum(count, bits - 1).astype(a.dtype), a.dtype.type(0))


def shift_right(a: Values, count: Values) -> Values:
    """a >> count, arithmetic for signed a, with counts clamped to the width."""
    bits = _bits(a)
    shifted = a >> np.minimum(count, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(count < bits, shifted, a.dtype.type(0))


def funnel_left(low: Values, high: Values, count: Values, wrap: bool) -> Values:
    """shf.l: the upper word of high:low shifted left."""
    amount = (count & u4(31) if wrap else np.minimum(count, u4(32))).astype(u8)
    return (((high.astype(u8) << u8(32)) | low.astype(u8)) << amount >> u8(32)).astype(u4)


def funnel_right(low: Values, high: Values, count: Values, wrap: bool) -> Values:
    """shf.r: the lower word of high:low shifted right."""
    amount = (count & u4(31) if wrap else np.minimum(count, u4(32))).astype(u8)
    return (((high.astype(u8) << u8(32)) | low.astype(u8)) >> amount).astype(u4)


def logic3(a: Values, b: Values, c: Values, table: Values) -> Values:
    """lop3: the bitwise function of three inputs whose truth table is the low byte of `table`."""
    result: Values = u4(0)
    for row in range(8):
        if int(table) >> row & 1:
            x, y, z = (a if row & 4 else ~a), (b if row & 2 else ~b), (c if row & 1 else ~c)
            result = result | (x & y & z)
    return result


def permute(a: Values, b: Values, selector: Values, mode: str = "") -> Values:
    """prmt: four bytes chosen from b:a. Source: PTX ISA, "prmt"."""
    pair = (b.astype(u8) << u8(32)) | a.astype(u8)
    result: Values = u4(0)
    for byte in range(4):
        position = selector & u4(3)
        match mode:
            case "":
                choice = selector >> u4(4 * byte) & u4(15)
            case "f4e":
                choice = position + u4(byte)
            case "b4e":
                choice = position - u4(byte) & u4(7)
            case "rc8":
                choice = position
            case "ecl":
                choice = np.maximum(position, u4(byte))
            case "ecr":
                choice = np.minimum(position, u4(byte))
            case _:  # rc16
                choice = (position & u4(1)) * u4(2) + u4(byte & 1)
        value = (pair >> ((choice & u4(7)) * u4(8)).astype(u8)).astype(u4) & u4(0xFF)
        replicated = (value >> u4(7)) * u4(0xFF)
        result = result | np.where(choice & u4(8), replicated, value) << u4(8 * byte)
    return result


def extract_field(a: Values, position: Values, length: Values) -> Values:
    """bfe: `length` bits of a from bit `position` on, extended by the field's top bit if a is signed."""
    bits = _bits(a)
    unsigned = np.dtype(f"u{bits // 8}").type
    position, length = position & u4(0xFF), length & u4(0xFF)
    kept = np.minimum(length, u4(bits) - np.minimum(position, u4(bits)))
    mask = shift_left(unsigned(1), kept) - unsigned(1)
    word = a.view(unsigned)
    field = shift_right(word, position) & mask
    if a.dtype.kind == "u":
        return field
    top = np.minimum(position + length - u4(1), u4(bits - 1))
    negative = (length > 0) & ((shift_right(word, top) & unsigned(1)) != 0)
    return np.where(negative, field | ~mask, field).view(a.dtype)


def insert_field(a: Values, b: Values, position: Values, length: Values) -> Values:
    """bfi: b with its `length` bits from bit `position` on replaced by the low bits of a."""
    position, length = position & u4(0xFF), length & u4(0xFF)
    mask = shift_left(shift_left(b.dtype.type(1), length) - b.dtype.type(1), position)
    return (b & ~mask) | (shift_left(a, position) & mask)


def reverse_bits(a: Values) -> Values:
    """brev."""
    bits = _bits(a)
    swap = 1
    while swap < bits:
        pattern = a.dtype.type(sum(((1 << swap) - 1) << start for start in range(0, bits, 2 * swap)))
        a = ((a & pattern) << a.dtype.type(swap)) | (a >> a.dtype.type(swap) & pattern)
        swap *= 2
    return a


def population_count(a: Values) -> Values:
    """popc."""
    count: Values = u4(0)
    for byte in range(_bits(a) // 8):
        count = count + _BITS_OF_BYTE.take((a >> a.dtype.type(8 * byte)).astype(u1))
    return count


_BITS_OF_BYTE = np.array([bin(byte).count("1") for byte in range(256)], u4)


def find_leading(a: Values) -> Values:
    """bfind: the position of the most significant bit that differs from the sign; all ones if none does."""
    bits = _bits(a)
    unsigned = np.dtype(f"u{bits // 8}").type
    value = np.where(a < 0, ~a, a).view(unsigned) if a.dtype.kind == "i" else a
    smeared = value
    step = 1
    while step < bits:
        smeared = smeared | (smeared >> unsigned(step))
        step *= 2
    return (population_count(smeared) - u4(1)).astype(u4)


def count_leading_zeros(a: Values) -> Values:
    """clz."""
    return u4(_bits(a) - 1) - find_leading(a)


def add_saturated(a: Values, b: Values, sign: int = 1) -> Values:
    """add.sat.s32 and, with sign -1, sub.sat.s32."""
    return np.clip(a.astype(i8) + sign * b.astype(i8), -(1 << 31), (1 << 31) - 1).astype(i4)


# Floating point ------------------------------------------------------------------------------------------------------


def fused(a: Values, b: Values, c: Values) -> Values:
    """fma of float32 in float64: the product is exact and only the sum is rounded twice."""
    total = np.multiply(a, b, dtype=f8)
    total = total + c
    return total.astype(f4)


def rounded(exact: Values, mode: str, dtype: Any = f4) -> Values:
    """A wider value in `dtype`, rounded to nearest (rn) or in a direction (rz, rm, rp)."""
    nearest = exact.astype(dtype)
    if mode == "rn":
        return nearest
    low, high = dtype(-np.inf), dtype(np.inf)
    above, below = nearest > exact, nearest < exact
    if mode == "rm":
        return np.where(above, np.nextafter(nearest, low), nearest)
    if mode == "rp":
        return np.where(below, np.nextafter(nearest, high), nearest)
    too_large = np.where(exact > 0, above, below)
    return np.where(too_large, np.nextafter(nearest, dtype(0)), nearest)


def flush(values: Values) -> Values:
    """Float32 subnormals as zeros of the same sign (.ftz)."""
    return np.where(np.abs(values) < f4(2.0**-126), np.copysign(f4(0), values), values)


def saturate(values: Values) -> Values:
    """.sat: clamp to [0, 1], NaN to 0."""
    one = values.dtype.type(1)
    return np.where(values > 0, np.minimum(values, one), values.dtype.type(0))


def bf16_to_float(bits: Values) -> Values:
    """bfloat16 bits to float32."""
    return (bits.astype(u4) << u4(16)).view(f4)


def float_to_bf16(values: Values, mode: str = "rn") -> Values:
    """Float32 to bfloat16 bits; NaN becomes 0x7fff."""
    bits = values.astype(f4).view(u4)
    if mode == "rz":
        nearest = (bits >> u4(16)).astype(u2)
    else:
        nearest = (bits + (u4(0x7FFF) + (bits >> u4(16) & u4(1))) >> u4(16)).astype(u2)
    return np.where(np.isnan(values), u2(0x7FFF), nearest)


def f16_to_float(bits: Values) -> Values:
    """binary16 bits to float32."""
    return bits.view(f2).astype(f4)


def float_to_f16(values: Values, mode: str = "rn") -> Values:
    """Float32 or float64 to binary16 bits; NaN becomes 0x7fff."""
    return np.where(np.isnan(values), u2(0x7FFF), rounded(values, mode, f2).view(u2))


def low_half(word: Values) -> Values:
    """Bits 0 to 15."""
    return word.astype(u2)


def high_half(word: Values) -> Values:
    """Bits 16 to 31."""
    return (word >> u4(16)).astype(u2)


def pack_halves(low: Values, high: Values) -> Values:
    """high:low."""
    return low.astype(u4) | (high.astype(u4) << u4(16))


def float_to_integer(values: Values, mode: str, dtype: Any) -> Values:
    """cvt to an integer type: rounded, clamped to its range, NaN as 0."""
    info = np.iinfo(dtype)
    whole = _ROUND_TO_INTEGER[mode](values.astype(f8))
    inside = np.where((whole >= float(info.min)) & (whole < float(info.max)), whole, 0.0).astype(dtype)
    return np.where(
        whole >= float(info.max), dtype(info.max), np.where(whole <= float(info.min), dtype(info.min), inside)
    )


def float_to_whole(values: Values, mode: str) -> Values:
    """cvt.rni and the like between floating-point types: the nearest whole number in a direction."""
    return _ROUND_TO_INTEGER[mode](values)


_ROUND_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integer_to_integer(values: Values, dtype: Any) -> Values:
    """cvt.sat between integer types."""
    info = np.iinfo(dtype)
    low, high = max(info.min, np.iinfo(values.dtype).min), min(info.max, np.iinfo(values.dtype).max)
    return np.clip(values, values.dtype.type(low), values.dtype.type(high)).astype(dtype)


def float_to_tf32(values: Values) -> Values:
    """cvt.rna.tf32.f32: 10 bits of mantissa, ties away from zero; bits of a float32."""
    bits = values.view(u4)
    return np.where(np.isfinite(values), bits + u4(0x1000) & u4(0xFFFFE000), bits)


def floats_to_float8(high: Values, low: Values, kind: str) -> Values:
    """cvt.rn.satfinite of two float32 to e4m3x2 or e5m2x2."""
    dtype = _PACKED_FLOAT8[kind]
    largest = f4(ml_dtypes.finfo(dtype).max)

    def convert(values: Values) -> Values:
        clamped = np.where(np.isnan(values), values, np.clip(values, -largest, largest))
        return np.asarray(clamped).astype(dtype).view(u1).astype(u2)

    return convert(low) | (convert(high) << u2(8))


def float8_to_halves(pair: Values, kind: str) -> Values:
    """cvt.rn.f16x2 from e4m3x2 or e5m2x2."""

    def convert(byte: Values) -> Values:
        return np.asarray(byte.astype(u1)).view(_PACKED_FLOAT8[kind]).astype(f4).astype(f2).view(u2)

    return pack_halves(convert(pair), convert(pair >> u2(8)))


def compare(a: Values, relation: str, b: Values) -> Values:
    """setp: ordered comparisons are false for NaN, those with a trailing u (and num, nan) tell it."""
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
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
    }
    return tests[name](a)


def lanes_of(value: Values, size: int) -> npt.NDArray[Any]:
    """A value per lane."""
    return np.broadcast_to(value, (size,))


def lane_values(value: Values, size: int, chosen: npt.NDArray[np.int64] | None) -> npt.NDArray[Any]:
    """A value for each of the chosen lanes, or for all of them."""
    lanes = lanes_of(value, size)
    return lanes if chosen is None else lanes[chosen]
