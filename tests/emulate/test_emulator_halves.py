"""16-bit floating point, pairs of it, and conversions, against ml_dtypes and exact fractions."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from emulate.lane_programs import LANES, as_inputs, evaluate, evaluate_one, float_inputs, integer_inputs, signed

F4, F8 = np.float32, np.float64
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
NAN = 0x7FFF


def flush(x):
    return np.copysign(x.dtype.type(0), x) if abs(F8(x)) < 2.0**-14 else x


def rounded(x, dtype):
    return F4(x).astype(dtype)


def least(a, b):
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    return min((a, b), key=lambda x: (F8(x), not np.signbit(x)))


def greatest(a, b):
    return -least(-a, -b)


def propagating(function):
    return lambda a, b, *_: a.dtype.type(math.nan) if np.isnan(a) or np.isnan(b) else function(a, b)


def relu(x):
    return x if np.isnan(x) or x > 0 else x.dtype.type(0)


def saturate(x):
    return x.dtype.type(0) if np.isnan(x) else min(max(x, x.dtype.type(0)), x.dtype.type(1))


def fma(a, b, c):
    """Rounded once, by choosing among the neighbors of what is rounded twice."""
    guess = rounded(F8(a) * F8(b) + F8(c), a.dtype)
    if not np.isfinite(guess) or guess == 0:
        return guess
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    bits = int(guess.view(np.uint16))
    neighbors = [np.uint16(bits + step).view(a.dtype) for step in (-1, 0, 1)]
    finite = [value for value in neighbors if np.isfinite(value)]
    return min(finite, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint16)) & 1))


# Every operation on values of a 16-bit type; sums and products are exact enough in float32.
OPERATIONS = {
    "add": lambda a, b, c: rounded(F4(a) + F4(b), a.dtype),
    "sub": lambda a, b, c: rounded(F4(a) - F4(b), a.dtype),
    "mul": lambda a, b, c: rounded(F4(a) * F4(b), a.dtype),
    "fma.rn": fma,
    "fma.rn.relu": lambda a, b, c: relu(fma(a, b, c)),
    "min": lambda a, b, c: least(a, b),
    "max": lambda a, b, c: greatest(a, b),
    "min.NaN": propagating(least),
    "max.NaN": propagating(greatest),
    "max.NaN.xorsign.abs": propagating(
        lambda a, b: np.copysign(greatest(abs(a), abs(b)), -1 if np.signbit(a) != np.signbit(b) else 1)
    ),
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: abs(a),
}
OF_F16_ONLY = {
    "add.sat": lambda a, b, c: saturate(rounded(F4(a) + F4(b), a.dtype)),
    "mul.ftz": lambda a, b, c: flush(rounded(F4(flush(a)) * F4(flush(b)), a.dtype)),
    "sub.ftz.sat": lambda a, b, c: saturate(flush(rounded(F4(flush(a)) - F4(flush(b)), a.dtype))),
    "neg.ftz": lambda a, b, c: flush(-a),
    "fma.rn.ftz.sat": lambda a, b, c: saturate(flush(fma(flush(a), flush(b), flush(c)))),
}
SOURCES = {"neg": 1, "abs": 1, "fma": 3}


def half_inputs(dtype, seed=0):
    """(lanes, 3, halves), with subnormals, zeros of both signs, infinities and NaN among them."""
    generator = np.random.default_rng(seed)
    shape = (LANES, 3, 2)
    values = (generator.standard_normal(shape) * 2.0 ** generator.integers(-8, 8, shape)).astype(dtype)
    smallest = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    special = [0.0, -0.0, 1.0, smallest, -3 * smallest, 700 * smallest, math.inf, -math.inf, math.nan, -1.5]
    chosen = generator.random(shape) < 0.4
    values[chosen] = np.array(special)[generator.integers(0, len(special), np.count_nonzero(chosen))].astype(dtype)
    return values


def compare_halves(result, expected, dtype):
    result, expected = (np.asarray(x).astype(dtype) for x in (result, expected))
    np.testing.assert_array_equal(result.astype(F4), expected.astype(F4))
    ordered = ~np.isnan(expected.astype(F4))
    np.testing.assert_array_equal(np.signbit(result)[ordered], np.signbit(expected)[ordered])


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in OPERATIONS for kind in DTYPES] + [(name, "f16") for name in OF_F16_ONLY]
)
def test_arithmetic(name, kind, pair):
    dtype = DTYPES[kind]
    values = half_inputs(dtype)
    count = SOURCES.get(name.split(".")[0], 2)
    registers = ["%d", "%a", "%b", "%c"] if pair else ["%h", "%ha", "%hb", "%hc"]
    body = f"{name}.{kind}{'x2' if pair else ''} {', '.join(registers[: count + 1])};"
    inputs = values.view(np.uint32)[..., 0].astype(np.uint64)
    width = 32 if pair else 16
    result = np.array(evaluate(body, inputs, width), f"u{width // 8}").view(dtype).reshape(LANES, -1)
    operation = {**OPERATIONS, **OF_F16_ONLY}[name]
    with np.errstate(all="ignore"):
        expected = [[operation(*values[lane, :, half]) for half in range(1 + pair)] for lane in range(LANES)]
    if "relu" in name or "sat" in name:  # either zero is right
        result, expected = (np.array(x, dtype) + dtype(0) for x in (result, expected))
    compare_halves(result, expected, dtype)


@pytest.mark.parametrize(("addend", "expected"), [(-(2.0**-100), 1.5 + 2**-7), (2.0**-100, 1.5 + 2**-6)])
def test_fma_of_bf16_rounds_once(addend, expected):
    """A product half-way between two values, and an addend far below the last digit that float64 has for it."""
    lane = np.array([1 + 2**-7, 1.5, addend]).astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint64)
    result = evaluate("fma.rn.bf16 %h, %ha, %hb, %hc;", np.tile(lane, (LANES, 1)), 16)
    assert np.array(result, np.uint16).view(ml_dtypes.bfloat16)[0] == expected


@pytest.mark.parametrize(
    ("name", "lane", "expected"),
    [
        ("mul.ftz", (0x040003FF, 0xBBFF3C00, 0), 0x80000000),
        ("mul", (0x04000400, 0xBBFF3C00, 0), 0x84000400),
        ("mul.ftz", (0x840083FF, 0xBBFF3C00, 0), 0x00008000),
        ("mul.ftz.sat", (0x840083FF, 0xBBFF3C00, 0), 0),
        ("fma.rn.ftz", (0x040003FF, 0xBBFF3C00, 0x80A43E04), 0x80003E04),
        # 2^-14 less 1/4 and 1/2 of the distance to the number of 11 bits below it, and less 3/4 and all of it.
        ("fma.rn.ftz", (0x84008400, 0x08000C00, 0x04000400), 0x04000400),
        ("fma.rn.ftz", (0x84008400, 0x0E001000, 0x04000400), 0),
    ],
)
def test_flushing_follows_rounding(name, lane, expected):
    """What 11 bits round up to the smallest normal number stays; what a subnormal's fewer bits round up does not."""
    registers = "%d, %a, %b, %c" if name.startswith("fma") else "%d, %a, %b"
    assert evaluate_one(f"{name}.f16x2 {registers};", lane, 32) == expected


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("function", ["tanh.approx", "ex2.approx"])
def test_approximations(function, kind):
    values = np.random.default_rng(1).uniform(-3, 3, (LANES, 3, 2)).astype(DTYPES[kind])
    name = f"{function}{'.ftz' if (function, kind) == ('ex2.approx', 'bf16') else ''}.{kind}x2"
    result = np.array(evaluate(f"{name} %d, %a;", values.view(np.uint32)[..., 0].astype(np.uint64), 32), np.uint32)
    exact = {"tanh.approx": np.tanh, "ex2.approx": np.exp2}[function](values[:, 0].astype(F8))
    tolerance = float(ml_dtypes.finfo(DTYPES[kind]).eps)
    np.testing.assert_allclose(result.view(DTYPES[kind]).reshape(LANES, 2).astype(F8), exact, rtol=tolerance)


RELATIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b and a == a and b == b, "lt": lambda a, b: a < b,
    "geu": lambda a, b: not a < b, "nan": lambda a, b: a != a or b != b, "num": lambda a, b: a == a and b == b,
}  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_comparisons_of_pairs(relation, kind):
    dtype = DTYPES[kind]
    values = half_inputs(dtype, 5)
    values[::3, 1] = values[::3, 0]
    inputs = values.view(np.uint32)[..., 0].astype(np.uint64)
    expected = [[RELATIONS[relation](*map(float, lane[:2, half])) for half in (0, 1)] for lane in values]
    body = f"setp.{relation}.{kind}x2 %P|%Q, %a, %b; selp.b32 %c, 1, 0, %P; selp.b32 %d, 2, 0, %Q; or.b32 %d, %d, %c;"
    assert evaluate(body, inputs, 32) == [low + 2 * high for low, high in expected]
    one = int(dtype(1).view(np.uint16))
    body = f"set.{relation}.{kind}x2.{kind}x2 %d, %a, %b;"
    assert evaluate(body, inputs, 32) == [(low + (high << 16)) * one for low, high in expected]
    body = f"set.{relation}.s32.{kind}x2 %d, %a, %b;"
    assert evaluate(body, inputs, 32) == [(low + (high << 16)) * 0xFFFF for low, high in expected]
    body = f"set.{relation}.u16.{kind} %h, %ha, %hb;"
    assert evaluate(body, inputs, 16) == [0xFFFF * low for low, _ in expected]
    body = f"setp.eq.u32 %P, %a, %a; set.{relation}.xor.u32.{kind} %d, %ha, %hb, !%P;"
    assert evaluate(body, inputs, 32) == [0xFFFFFFFF * low for low, _ in expected]


# Conversions ---------------------------------------------------------------------------------------------------------


def float_words(dtype, *, seed=0):
    """Values about the range of a 16-bit type, ties and values beyond it included."""
    generator = np.random.default_rng(seed)
    values = float_inputs()
    values[:48] = (half_inputs(dtype, seed)[:48, :, 0].astype(F4)) * F4(1 + 2.0**-9)
    values[48:72] = generator.uniform(-1, 1, (24, 3)).astype(dtype).astype(F4) * F4(1 + 2.0**-11)
    return values


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("modifiers", ["rn", "rz", "rn.relu", "rz.relu", "rn.satfinite", "rn.relu.satfinite"])
def test_pairs_from_f32(modifiers, kind):
    dtype = DTYPES[kind]
    values = float_words(dtype)
    word = np.array(evaluate(f"cvt.{modifiers}.{kind}x2.f32 %d, %fa, %fb;", as_inputs(values), 32), np.uint32)
    with np.errstate(all="ignore"):
        expected = values[:, 1::-1].astype(dtype)
        if "rz" in modifiers:
            beyond = np.abs(expected.astype(F8)) > np.abs(values[:, 1::-1])
            expected = np.where(beyond, (expected.view(np.uint16) - 1).view(dtype), expected)
    if "relu" in modifiers:
        expected = np.where(expected.astype(F4) < 0, dtype(0), expected)
    if "satfinite" in modifiers:
        largest = ml_dtypes.finfo(dtype).max
        expected = np.where(expected == dtype(math.inf), largest, expected)
        expected = np.where(expected == dtype(-math.inf), -largest, expected)
    np.testing.assert_array_equal(word.view(dtype).reshape(LANES, 2).astype(F4), expected.astype(F4))
    assert (word.view(np.uint16).reshape(LANES, 2)[np.isnan(values[:, 1::-1])] == NAN).all()


@pytest.mark.parametrize(
    ("mode", "keep"),
    [("rna", lambda m: math.floor(m + 0.5)), ("rn", round), ("rz", math.floor)],
)
def test_tf32(mode, keep):
    values = np.where(np.isfinite(float_inputs()), float_inputs(), F4(1.5))
    values[:20, 0] = (1 + np.arange(20) * 2.0**-11).astype(F4)  # ties
    values = np.where(np.abs(values) < 1e-30, F4(0), values)
    result = np.array(evaluate(f"cvt.{mode}.tf32.f32 %d, %fa;", as_inputs(values), 32), np.uint32).view(F4)
    for value, converted in zip(values[:, 0], result, strict=True):
        fraction, exponent = math.frexp(abs(float(value)))
        assert converted == math.copysign(math.ldexp(keep(fraction * 2048), exponent - 11), value)


def test_tf32_keeps_infinities_unless_they_are_to_be_finite():
    values = np.full((LANES, 3), math.inf, F4)
    values[:, 1] = math.nan
    body = "cvt.rna.tf32.f32 %a, %fa; cvt.rna.satfinite.tf32.f32 %b, %fa; cvt.rna.tf32.f32 %c, %fb; xor.b32 %d, %a, %b;"
    assert evaluate(body, as_inputs(values), 32)[0] == 0x7F800000 ^ 0x7F7FE000


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_float8_pairs(kind, dtype, relu):
    largest = float(ml_dtypes.finfo(dtype).max)
    values = float_words(np.float16)
    with np.errstate(all="ignore"):
        clamped = np.clip(values, -largest, largest)
        clamped = np.where(clamped < 0, 0, clamped) if relu else clamped
        expected = clamped.astype(F4).astype(dtype).astype(F4)
        halves = np.clip(values[:, :2].astype(np.float16), -largest, largest)
        of_halves = np.where((halves < 0) & bool(relu), 0, halves).astype(F4).astype(dtype).astype(F4)
    body = f"cvt.rn.satfinite{relu}.{kind}x2.f32 %h, %fa, %fb;"
    result = np.array(evaluate(body, as_inputs(values), 16), np.uint16).view(dtype).reshape(LANES, 2)
    np.testing.assert_array_equal(result.astype(F4), expected[:, 1::-1])
    words = values[:, :2].astype(np.float16).view(np.uint32).astype(np.uint64)
    inputs = np.concatenate([words, words, words], axis=1)
    result = np.array(evaluate(f"cvt.rn.satfinite{relu}.{kind}x2.f16x2 %h, %a;", inputs, 16), np.uint16).view(dtype)
    np.testing.assert_array_equal(result.reshape(LANES, 2).astype(F4), of_halves)


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_all_float8_values_to_halves(kind, dtype, relu):
    for start in (0, 128):
        codes = (start + np.arange(LANES) * 128 // LANES).astype(np.uint8)
        words = (codes.astype(np.uint64) << 8) | codes[::-1]
        body = f"cvt.rn{relu}.f16x2.{kind}x2 %d, %ha;"
        result = np.array(evaluate(body, np.stack([words] * 3, 1), 32), np.uint32).view(np.float16).reshape(LANES, 2)
        expected = np.stack([codes[::-1], codes], 1).view(dtype).astype(np.float16)
        expected = np.where(expected < 0, np.float16(0), expected) if relu else expected
        np.testing.assert_array_equal(result, expected)


@np.errstate(over="ignore")
def exactly(value, dtype, mode):
    """An integer rounded to a floating-point type."""
    candidates = [dtype(F8(value))]
    for _ in range(2):
        candidates += [(candidates[0].view(np.uint16) + 1).view(dtype), (candidates[0].view(np.uint16) - 1).view(dtype)]
    finite = [c for c in candidates if np.isfinite(F8(c))] or candidates
    exact = [(int(F8(c)), c) for c in finite]
    if mode == "rz":
        return max((c for c in exact if abs(c[0]) <= abs(value)), key=lambda c: abs(c[0]))[1]
    if mode == "rp":
        return min((c for c in exact if c[0] >= value), key=lambda c: c[0])[1]
    return min(exact, key=lambda c: (abs(c[0] - value), int(c[1].view(np.uint16)) & 1))[1]


@pytest.mark.parametrize("mode", ["rn", "rz", "rp"])
@pytest.mark.parametrize(
    ("kind", "source", "register"), [("bf16", "s64", "%A"), ("bf16", "u32", "%a"), ("f16", "s16", "%ha")]
)
def test_integers_to_halves(kind, source, register, mode):
    inputs = integer_inputs(8)
    inputs[:8, 0] = [(1 << 40) + (1 << 32), (1 << 40) + (1 << 32) + 1, (1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1,
                     (1 << 62) + (1 << 54) - 1, 0x101, 0x102, 0x103]  # fmt: skip
    bits = int(source[1:])
    numbers = [signed(int(x), bits) if source[0] == "s" else int(x) & ((1 << bits) - 1) for x in inputs[:, 0]]
    result = np.array(evaluate(f"cvt.{mode}.{kind}.{source} %h, {register};", inputs, 16), np.uint16).view(DTYPES[kind])
    expected = np.array([exactly(number, DTYPES[kind], mode) for number in numbers], DTYPES[kind])
    np.testing.assert_array_equal(result.astype(F4), expected.astype(F4))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(
    ("to", "low", "high"), [("s32", -(2**31), 2**31 - 1), ("u16", 0, 65535), ("s16", -(2**15), 2**15 - 1)]
)
@pytest.mark.parametrize(
    ("mode", "rounding"), [("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)]
)
def test_halves_to_integers(kind, to, low, high, mode, rounding):
    values = half_inputs(DTYPES[kind], 9)[..., 0]
    inputs = values.view(np.uint16).astype(np.uint64)
    extend = "cvt.u32.u16 %d, %ha;" if to == "u16" else "cvt.s32.s16 %d, %ha;" if to == "s16" else ""
    result = evaluate(f"cvt.{mode}.{to}.{kind} {'%ha' if extend else '%d'}, %ha; {extend}", inputs, 32)

    def convert(x):
        if math.isnan(x):
            return 0
        return max(low, min(high, rounding(x) if math.isfinite(x) else x))

    assert [signed(x) for x in result] == [int(convert(float(x))) for x in values[:, 0]]


def test_nan_to_integers():
    """PTX ISA, "cvt": zero, or the top bit alone where 64 bits are involved."""
    inputs = as_inputs(np.full((LANES, 3), math.nan))
    assert evaluate("cvt.rzi.s32.f64 %d, %da;", inputs, 32)[0] == 1 << 31
    assert evaluate("cvt.rzi.u64.f64 %D, %da;", inputs, 64)[0] == 1 << 63
    inputs = as_inputs(np.full((LANES, 3), math.nan, F4))
    assert evaluate("cvt.rzi.s64.f32 %D, %fa;", inputs, 64)[0] == 1 << 63
    assert evaluate("cvt.rzi.s32.f32 %d, %fa;", inputs, 32)[0] == 0


def test_between_16_bit_types():
    values = half_inputs(np.float16)[..., 0]
    result = evaluate("cvt.rn.bf16.f16 %h, %ha; cvt.rn.f16.bf16 %h, %h;", values.view(np.uint16).astype(np.uint64), 16)
    expected = values[:, 0].astype(F4).astype(ml_dtypes.bfloat16).astype(F4).astype(np.float16)
    np.testing.assert_array_equal(np.array(result, np.uint16).view(np.float16), expected)
