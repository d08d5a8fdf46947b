"""Single PTX instructions against references in plain Python."""

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from emulate.lane_programs import (
    LANES,
    U32,
    U64,
    as_inputs,
    evaluate,
    evaluate_one,
    float_inputs,
    integer_inputs,
    signed,
)
from tilewright.emulator import UnsupportedInstruction


def truncated_division(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def prmt(a, b, c, mode=None):
    data = [(a | b << 32) >> (8 * i) & 0xFF for i in range(8)]
    result = 0
    for i in range(4):
        select = c >> (4 * i) & 15
        byte = data[select & 7]
        if select & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << (8 * i)
    return result


def bfe(a, b, c, is_signed):
    position, length = b & 0xFF, c & 0xFF
    sign = 0
    if is_signed and length:
        sign = a >> min(position + length - 1, 31) & 1
    return sum((a >> (position + i) & 1 if i < length and position + i <= 31 else sign) << i for i in range(32))


def bfi(a, b, position, length):
    for i in range(length & 0xFF):
        if (position & 0xFF) + i <= 31:
            bit = (position & 0xFF) + i
            b = b & ~(1 << bit) | (a >> i & 1) << bit
    return b


INTEGER_CASES = {
    "add.u32 %d, %a, %b;": lambda a, b, c: a + b,
    "sub.s32 %d, %a, %b;": lambda a, b, c: a - b,
    "add.sat.s32 %d, %a, %b;": lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, signed(a) + signed(b))),
    "mul.lo.s32 %d, %a, %b;": lambda a, b, c: a * b,
    "mul.hi.u32 %d, %a, %b;": lambda a, b, c: a * b >> 32,
    "mul.hi.s32 %d, %a, %b;": lambda a, b, c: signed(a) * signed(b) >> 32,
    "mad.lo.u32 %d, %a, %b, %c;": lambda a, b, c: a * b + c,
    "mad.hi.s32 %d, %a, %b, %c;": lambda a, b, c: (signed(a) * signed(b) >> 32) + c,
    "div.u32 %d, %a, %b;": lambda a, b, c: a // b if b else U32,
    "div.s32 %d, %a, %b;": lambda a, b, c: truncated_division(signed(a), signed(b)) if b else U32,
    "rem.u32 %d, %a, %b;": lambda a, b, c: a % b if b else a,
    "rem.s32 %d, %a, %b;": lambda a, b, c: signed(a) - signed(b) * truncated_division(signed(a), signed(b)) if b else a,
    "abs.s32 %d, %a;": lambda a, b, c: abs(signed(a)),
    "neg.s32 %d, %a;": lambda a, b, c: -a,
    "min.s32 %d, %a, %b;": lambda a, b, c: min(signed(a), signed(b)),
    "max.u32 %d, %a, %b;": lambda a, b, c: max(a, b),
    "and.b32 %d, %a, %b;": lambda a, b, c: a & b,
    "xor.b32 %d, %a, 0xf0f0;": lambda a, b, c: a ^ 0xF0F0,
    "not.b32 %d, %a;": lambda a, b, c: ~a,
    "cnot.b32 %d, %a;": lambda a, b, c: int(a == 0),
    "shl.b32 %d, %a, %b;": lambda a, b, c: a << b if b < 32 else 0,
    "shr.u32 %d, %a, %b;": lambda a, b, c: a >> b if b < 32 else 0,
    "shr.s32 %d, %a, %b;": lambda a, b, c: signed(a) >> min(b, 31),
    "shr.s32 %d, %a, 40;": lambda a, b, c: signed(a) >> 31,
    "shf.l.wrap.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.r.clamp.b32 %d, %a, %b, %c;": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "lop3.b32 %d, %a, %b, %c, 0xca;": lambda a, b, c: a & b | ~a & c,
    "prmt.b32 %d, %a, %b, %c;": prmt,
    "prmt.b32 %d, %a, %b, 0x5410;": lambda a, b, c: a & 0xFFFF | b << 16,
    "bfe.u32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, False),
    "bfe.s32 %d, %a, %b, %c;": lambda a, b, c: bfe(a, b, c, True),
    "bfi.b32 %d, %a, %b, %c, 7;": lambda a, b, c: bfi(a, b, c, 7),
    "brev.b32 %d, %a;": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "popc.b32 %d, %a;": lambda a, b, c: a.bit_count(),
    "clz.b32 %d, %a;": lambda a, b, c: 32 - a.bit_length(),
    "bfind.u32 %d, %a;": lambda a, b, c: a.bit_length() - 1,
    "bfind.s32 %d, %a;": lambda a, b, c: (~a & U32 if a >> 31 else a).bit_length() - 1,
    "cvt.s32.s8 %d, %a;": lambda a, b, c: signed(a, 8),
    "cvt.u32.u16 %d, %ha;": lambda a, b, c: a & 0xFFFF,
    "cvt.sat.u8.s32 %d, %a;": lambda a, b, c: max(0, min(255, signed(a))),
    "setp.lt.s32 %P, %a, %b; selp.b32 %d, %a, %c, %P;": lambda a, b, c: a if signed(a) < signed(b) else c,
    "setp.hs.u32 %P, %a, %b; @%P bra L; mov.u32 %d, 5; bra M; L: mov.u32 %d, 9; M:": lambda a, b, c: 9 if a >= b else 5,
    "mov.u32 %d, 3; setp.eq.s32 %P|%Q, %a, %b; @%P mov.u32 %d, 1; @!%P add.u32 %d, %d, 4;": lambda a, b, c: (
        1 if a == b else 7
    ),
    "setp.ne.s32 %Q, %c, 0; setp.gt.and.s32 %P, %a, %b, %Q; selp.b32 %d, 1, 0, %P;": lambda a, b, c: int(
        signed(a) > signed(b) and c != 0
    ),
    "set.lt.u32.s32 %d, %a, %b;": lambda a, b, c: U32 if signed(a) < signed(b) else 0,
    "slct.s32.s32 %d, %a, %b, %c;": lambda a, b, c: a if signed(c) >= 0 else b,
    "mov.b32 {%ha, %hb}, %a; mov.b32 %d, {%hb, %ha};": lambda a, b, c: a >> 16 | (a & 0xFFFF) << 16,
    "{ .reg .b32 %a; mov.u32 %a, 17; add.u32 %d, %a, %b; }": lambda a, b, c: 17 + b,
}
LONG_CASES = {
    "mul.wide.u32 %D, %a, %b;": lambda a, b, c: (a & U32) * (b & U32),
    "mul.wide.s32 %D, %a, %b;": lambda a, b, c: signed(a) * signed(b),
    "mad.wide.s32 %D, %a, %b, %C;": lambda a, b, c: signed(a) * signed(b) + c,
    "mul.hi.u64 %D, %A, %B;": lambda a, b, c: a * b >> 64,
    "mul.hi.s64 %D, %A, %B;": lambda a, b, c: signed(a, 64) * signed(b, 64) >> 64,
    "add.s64 %D, %A, -5;": lambda a, b, c: a - 5,
    "div.s64 %D, %A, %B;": lambda a, b, c: truncated_division(signed(a, 64), signed(b, 64)) if b else U64,
    "shr.s64 %D, %A, %b;": lambda a, b, c: signed(a, 64) >> min(b & U32, 63),
    "shl.b64 %D, %A, %b;": lambda a, b, c: a << (b & U32) if (b & U32) < 64 else 0,
    "cvt.s64.s32 %D, %a;": lambda a, b, c: signed(a),
    "mov.b64 %D, {%b, %a};": lambda a, b, c: (a & U32) << 32 | b & U32,
    "popc.b64 %d, %A; cvt.u64.u32 %D, %d;": lambda a, b, c: a.bit_count(),
    "bfe.u64 %D, %A, %b, 20;": lambda a, b, c: (a >> (b & U32)) & 0xFFFFF,
    "mov.u64 %D, 7; { .reg .pred %P; setp.lt.u64 %P, %A, %B; @%P mov.u64 %D, 8; }": lambda a, b, c: 8 if a < b else 7,
}


@pytest.mark.parametrize("body", INTEGER_CASES)
def test_integers(body):
    inputs = integer_inputs()
    expected = [INTEGER_CASES[body](*(int(x) & U32 for x in lane)) & U32 for lane in inputs]
    assert evaluate(body, inputs, 32) == expected


@pytest.mark.parametrize("body", LONG_CASES)
def test_long_integers(body):
    inputs = integer_inputs(1)
    expected = [LONG_CASES[body](*(int(x) for x in lane)) & U64 for lane in inputs]
    assert evaluate(body, inputs, 64) == expected


def clamp(value, low, high):
    return 0 if math.isnan(value) else max(low, min(high, value))


def to_integer(value, rounding, low, high):
    if not math.isfinite(value):
        return int(clamp(value, low, high))
    return int(clamp(rounding(value), low, high))


def flush(x):
    return np.copysign(np.float32(0), x) if abs(x) < np.float32(2**-126) else x


F8 = np.float64
FLOAT_CASES = {
    "add.f32 %fa, %fa, %fb;": lambda a, b, c: a + b,
    "mul.rn.f32 %fa, %fa, %fb;": lambda a, b, c: a * b,
    "add.ftz.f32 %fa, %fa, %fb;": lambda a, b, c: flush(flush(a) + flush(b)),
    "fma.rn.f32 %fa, %fa, %fb, %fc;": lambda a, b, c: np.float32(F8(a) * F8(b) + F8(c)),
    "fma.rn.sat.f32 %fa, %fa, %fb, %fc;": lambda a, b, c: np.float32(
        clamp(float(np.float32(F8(a) * F8(b) + F8(c))), 0, 1)
    ),
    "div.rn.f32 %fa, %fa, %fb;": lambda a, b, c: a / b,
    "rcp.rn.f32 %fa, %fa;": lambda a, b, c: np.float32(1) / a,
    "sqrt.rn.f32 %fa, %fa;": lambda a, b, c: np.sqrt(a),
    "abs.f32 %fa, %fa;": lambda a, b, c: abs(a),
    "neg.f32 %fa, %fa;": lambda a, b, c: -a,
    "copysign.f32 %fa, %fa, %fb;": lambda a, b, c: np.copysign(b, a),
    "min.f32 %fa, %fa, %fb;": lambda a, b, c: b if np.isnan(a) else a if np.isnan(b) else min(a, b),
    "max.NaN.f32 %fa, %fa, %fb;": lambda a, b, c: np.float32(math.nan) if np.isnan(a) or np.isnan(b) else max(a, b),
    "setp.ltu.f32 %P, %fa, %fb; selp.f32 %fa, %fa, %fc, %P;": lambda a, b, c: a if not a >= b else c,
    "setp.ne.f32 %P, %fa, %fb; selp.f32 %fa, 0f3F800000, 0f00000000, %P;": lambda a, b, c: np.float32(a < b or a > b),
    "cvt.rni.f32.f32 %fa, %fa;": lambda a, b, c: np.rint(a),
    "cvt.rmi.f32.f32 %fa, %fa;": lambda a, b, c: np.floor(a),
    "cvt.sat.f32.f32 %fa, %fa;": lambda a, b, c: np.float32(clamp(float(a), 0, 1)),
    "cvt.rzi.s32.f32 %d, %fa; cvt.rn.f32.s32 %fa, %d;": lambda a, b, c: np.float32(
        to_integer(float(a), math.trunc, -(2**31), 2**31 - 1)
    ),
    "cvt.rni.u32.f32 %d, %fa; cvt.rn.f32.u32 %fa, %d;": lambda a, b, c: np.float32(
        to_integer(float(a), round, 0, 2**32 - 1)
    ),
    "cvt.rn.f16.f32 %h, %fa; cvt.f32.f16 %fa, %h;": lambda a, b, c: np.float32(np.float16(a)),
    "cvt.rn.bf16.f32 %h, %fa; cvt.f32.bf16 %fa, %h;": lambda a, b, c: np.float32(ml_dtypes.bfloat16(a)),
    "cvt.rn.bf16x2.f32 %d, %fa, %fb; mov.b32 {%ha, %hb}, %d; cvt.f32.bf16 %fa, %hb;": lambda a, b, c: np.float32(
        ml_dtypes.bfloat16(a)
    ),
    "cvt.rn.relu.f16x2.f32 %d, %fa, %fb; mov.b32 {%ha, %hb}, %d; cvt.f32.f16 %fa, %ha;": lambda a, b, c: np.float32(
        np.float16(b if np.isnan(b) else max(b, np.float32(0)))
    ),
    "cvt.rn.f16.f32 %ha, %fa; cvt.rn.f16.f32 %hb, %fb; add.f16 %h, %ha, %hb; cvt.f32.f16 %fa, %h;": lambda a, b, c: (
        np.float32(np.float16(a) + np.float16(b))
    ),
    "cvt.rn.f16x2.f32 %d, %fa, %fb; cvt.rn.f16x2.f32 %t, %fc, %fc; mul.f16x2 %d, %d, %t; mov.b32 {%ha, %hb}, %d;"
    " cvt.f32.f16 %fa, %ha; mov.u32 %t, %tid.x;": lambda a, b, c: np.float32(np.float16(b) * np.float16(c)),
    "cvt.f64.f32 %da, %fa; cvt.f64.f32 %db, %fb; mul.f64 %da, %da, %db; cvt.rn.f32.f64 %fa, %da;": lambda a, b, c: (
        np.float32(F8(a) * F8(b))
    ),
}


@pytest.mark.parametrize("body", FLOAT_CASES)
def test_floats(body):
    values = float_inputs()
    with np.errstate(all="ignore"):
        expected = np.array([np.float32(FLOAT_CASES[body](*lane)) for lane in values])
    result = np.array(evaluate(body + " mov.b32 %d, %fa;", as_inputs(values), 32), np.uint32).view(np.float32)
    np.testing.assert_array_equal(result, expected)
    ordered = ~np.isnan(expected)
    if "min" not in body and "relu" not in body:  # either zero is right
        np.testing.assert_array_equal(np.signbit(result[ordered]), np.signbit(expected[ordered]))


@pytest.mark.parametrize(("mode", "step"), [("rz", 0), ("rm", -1), ("rp", 1)])
def test_directed_rounding(mode, step):
    values = float_inputs()
    values[~np.isfinite(values)] = 1.5
    result = evaluate(f"add.{mode}.f32 %fa, %fa, %fb; mov.b32 %d, %fa;", as_inputs(values), 32)
    rounded = np.array(result, np.uint32).view(np.float32).astype(np.float64)
    exact = values[:, 0].astype(np.float64) + values[:, 1].astype(np.float64)
    below = rounded <= exact
    above = rounded >= exact
    assert np.all(below if step < 0 else above if step > 0 else np.where(exact > 0, below, above))
    assert np.all(np.abs(rounded - exact) <= np.spacing(np.abs(exact).astype(np.float32)))


@pytest.mark.parametrize(
    ("body", "lane", "expected"),
    [
        # Rounded down, a sum of zero is -0 unless both terms are +0.
        ("add.rm.f32 %fa, %fa, %fb;", (0x80000000, 0, 0), 0x80000000),
        ("add.rm.f32 %fa, %fa, %fb;", (0xBF800000, 0x3F800000, 0), 0x80000000),
        ("add.rm.f32 %fa, %fa, %fb;", (0, 0, 0), 0),
        ("add.rp.f32 %fa, %fa, %fb;", (0xBF800000, 0x3F800000, 0), 0),
        ("sub.rm.f32 %fa, %fa, %fb;", (0, 0, 0), 0x80000000),
        ("sub.rm.f32 %fa, %fa, %fb;", (0, 0x80000000, 0), 0),
        ("sub.rm.f32 %fa, %fa, %fb;", (0x3F800000, 0x3F800000, 0), 0x80000000),
        ("add.rm.ftz.f32 %fa, %fa, %fb;", (0x800116C2, 0, 0), 0x80000000),
        ("sub.rm.ftz.f32 %fa, %fa, %fb;", (0x000116C2, 0, 0), 0x80000000),
        ("fma.rm.f32 %fa, %fa, %fb, %fc;", (0x3F800000, 0x3F800000, 0xBF800000), 0x80000000),
        ("fma.rm.ftz.f32 %fa, %fa, %fb, %fc;", (0x5F800000, 0, 0x80000001), 0x80000000),
        ("fma.rm.ftz.f32 %fa, %fa, %fb, %fc;", (0xC0200000, 0, 0x007FFFFF), 0x80000000),
    ],
)
def test_sign_of_a_directed_zero(body, lane, expected):
    assert evaluate_one(f"{body} mov.b32 %d, %fa;", lane, 32) == expected


@pytest.mark.parametrize(("kind", "register", "bits"), [("f32", "%fa", 32), ("f64", "%da", 64)])
def test_zero_is_a_normal_number(kind, register, bits):
    """PTX ISA, "testp"."""
    body = f"testp.normal.{kind} %P, {register}; testp.subnormal.{kind} %Q, {register};"
    body += " selp.b32 %d, 1, 0, %P; @%Q or.b32 %d, %d, 2;"
    results = [evaluate_one(body, (value, 0, 0), 32) for value in (0, 1 << bits - 1, 1, 0x7FF << bits - 12)]
    assert results == [1, 1, 2, 0]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["u64", "s64"])
def test_long_integers_to_float64(source, mode):
    inputs = integer_inputs(9)
    inputs[:9, 0] = [(1 << 63) - 1, (1 << 63) + 1, U64 - 0xFF, U64, (1 << 53) + 1, (1 << 53) + 3, 0, 1 << 63, U64 >> 10]
    results = np.array(evaluate(f"cvt.{mode}.f64.{source} %da, %A; mov.b64 %D, %da;", inputs, 64), np.uint64)
    for number, result in zip(inputs[:, 0], results.view(F8), strict=True):
        number = signed(int(number), 64) if source == "s64" else int(number)
        nearest = float(number)  # Python rounds to nearest, ties to even
        down = nearest if int(nearest) <= number else math.nextafter(nearest, -math.inf)
        up = nearest if int(nearest) >= number else math.nextafter(nearest, math.inf)
        assert result == {"rn": nearest, "rm": down, "rp": up, "rz": down if number > 0 else up}[mode]


@pytest.mark.parametrize(
    ("name", "function", "low", "high"),
    [
        ("ex2.approx.ftz.f32", np.exp2, -20, 20),
        ("lg2.approx.f32", np.log2, 1e-3, 1e3),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 1e-3, 1e3),
        ("rcp.approx.ftz.f32", np.reciprocal, 1e-3, 1e3),
        ("sin.approx.f32", np.sin, -3, 3),
        ("tanh.approx.f32", np.tanh, -4, 4),
    ],
)
def test_approximations(name, function, low, high):
    values = np.random.default_rng(4).uniform(low, high, (LANES, 3)).astype(np.float32)
    result = np.array(evaluate(f"{name} %fa, %fa; mov.b32 %d, %fa;", as_inputs(values), 32), np.uint32).view(np.float32)
    np.testing.assert_allclose(result, function(values[:, 0].astype(np.float64)), rtol=1e-6)


def test_float8_conversions():
    values = np.random.default_rng(5).uniform(-500, 500, (LANES, 3)).astype(np.float32)
    values[0, :2] = 1e6, -1e6
    body = "cvt.rn.satfinite.e4m3x2.f32 %h, %fa, %fb; cvt.rn.f16x2.e4m3x2 %d, %h;"
    result = np.array(evaluate(body, as_inputs(values), 32), np.uint32).view(np.float16).reshape(LANES, 2)
    expected = np.clip(values[:, 1::-1], -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float16)
    np.testing.assert_array_equal(result, expected)


def test_bf16x2_fma():
    values = np.random.default_rng(6).standard_normal((LANES, 3)).astype(np.float32)
    body = (
        "cvt.rn.bf16x2.f32 %a, %fa, %fa; cvt.rn.bf16x2.f32 %b, %fb, %fb; cvt.rn.bf16x2.f32 %c, %fc, %fc;"
        " fma.rn.relu.bf16x2 %d, %a, %b, %c;"
    )
    result = np.array(evaluate(body, as_inputs(values), 32), np.uint32).view(ml_dtypes.bfloat16).reshape(LANES, 2)
    a, b, c = values.astype(ml_dtypes.bfloat16).astype(np.float64).T
    expected = np.maximum(a * b + c, 0).astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(result, np.stack([expected, expected], 1))


def nearest(exact, dtype):
    """A fraction rounded to the nearest value of a NumPy type, ties to even, by searching among neighbors."""
    guess = dtype(float(exact))
    candidates = [guess, np.nextafter(guess, dtype(-np.inf)), np.nextafter(guess, dtype(np.inf))]
    finite = [value for value in candidates if np.isfinite(value)]
    return min(finite, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(f"u{value.nbytes}")) & 1))


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_fma_rounds_once(kind, dtype):
    digits = np.finfo(dtype).nmant
    generator = np.random.default_rng(7)
    values = generator.standard_normal((LANES, 3)) * 2.0 ** generator.integers(-30, 30, (LANES, 3))
    # A product that lies half-way between two values, and an addend that only decides on which side.
    values[:40, 0] = 1 + 2.0 ** -(digits // 2 + 1) * generator.integers(1, 200, 40) * 2
    values[:40, 1] = 1 + 2.0 ** -(digits - digits // 2) * generator.integers(1, 200, 40)
    values[:40, 2] = generator.choice([-1, 1], 40) * 2.0 ** generator.integers(-100, -60, 40)
    values[40:60] = [2.0**-70, 2.0**-70, 2.0**-130] if kind == "f32" else [0.1, 0.1, -0.01]
    values = values.astype(dtype)
    names = "%fa, %fa, %fb, %fc; mov.b32 %d, %fa;" if kind == "f32" else "%da, %da, %db, %dc; mov.b64 %D, %da;"
    bits = 8 * values.itemsize
    result = np.array(evaluate(f"fma.rn.{kind} {names}", as_inputs(values), bits), f"u{bits // 8}").view(dtype)
    expected = [nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype) for a, b, c in values]
    np.testing.assert_array_equal(result, np.array(expected))


LARGEST, SMALLEST = 0x7FEFFFFFFFFFFFFF, 0x0000000000000001


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        ((0x01D1AC89F9CAF6CC, 0xFFEFFFFFFFFFFFFF, 0x402C171C24C041B8), 0xC1D1AC89F6481347),
        ((LARGEST, 0x4000000000000000, 0xFFEFFFFFFFFFFFFF), LARGEST),  # the product alone would be infinite
        ((LARGEST, 0x4000000000000000, 0), 0x7FF0000000000000),
        ((LARGEST, 0xC000000000000000, 0), 0xFFF0000000000000),
        ((LARGEST, 0x3FF0000000000000, 0xFFEFFFFFFFFFFFFF), 0),
        ((SMALLEST, 0xBFE0000000000000, 0), 0x8000000000000000),
        ((SMALLEST, 0x3FE0000000000000, SMALLEST), 2),  # a tie of subnormal numbers
        ((SMALLEST, 0x3FDFFFFFFFFFFFFF, SMALLEST), 1),
        ((SMALLEST, SMALLEST, 0x3FF0000000000001), 0x3FF0000000000001),
        ((LARGEST, 0, 0x8000000000000000), 0),
        ((LARGEST, LARGEST, 0xFFF0000000000000), 0xFFF0000000000000),
        ((0x7FF0000000000000, SMALLEST, LARGEST), 0x7FF0000000000000),
    ],
)
def test_fma_at_the_ends_of_float64(lane, expected):
    assert evaluate_one("fma.rn.f64 %da, %da, %db, %dc; mov.b64 %D, %da;", lane, 64) == expected


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("prmt.b32.f5e %d, %a, %b, %c;", r"add it to tilewright\.emulator\.ptx\.forms and to the emitter"),
        ("istypep.texref %p, %a;", r"write an emitter, @emits\('istypep'\), in a module of tilewright"),
    ],
)
def test_unknown_instructions_are_named_with_the_place_to_add_them(body, remedy):
    with pytest.raises(UnsupportedInstruction, match=rf"{body.split()[0]}.*PTX line \d+\).*{remedy}"):
        evaluate(body, integer_inputs(), 32)


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("bar.synk 0;", r"in `bar\.synk`.*expected bar.*\. Did you mean \.sync\? If it is spelled as in PTX, the emul"),
        ("add.satt.s33 %d, %a, %b;", r"Did you mean \.sat\? If"),
        ("add.qqqq.u32 %d, %a, %b;", r"\. If it is spelled as in PTX, the emulator lacks it: add it to tilewright"),
        ("bar.red.popc.pred %p1, 0, %p2;", r"lacks \.u32; expected \S*\. If it is spelled"),
        ("popcc.b32 %d, %a;", r"no emulation of `popcc\.b32`.*\. Did you mean popc\? If .*lacks it: to add it, write"),
        ("istypep.u32 %d, %a, %b;", r"no emulation of `istypep\.u32`.*\)\. If it is spelled"),
    ],
)
def test_what_may_be_misspelled(body, meant):
    with pytest.raises(UnsupportedInstruction, match=meant):
        evaluate(body, integer_inputs(), 32)


def test_unknown_modifiers_are_named():
    with pytest.raises(UnsupportedInstruction, match=r"no emulation of \.wrong in `add\.wrong\.u32`"):
        evaluate("add.wrong.u32 %d, %a, %b;", integer_inputs(), 32)


def test_constants_are_bits():
    bits = struct.unpack("<I", struct.pack("<f", math.pi))[0]
    assert evaluate(f"mov.f32 %fa, 0f{bits:08X}; mov.b32 %d, %fa;", integer_inputs(), 32) == [bits] * LANES
