"""The sums of an H200's tensor cores: cases worked out by hand, and a slow reference in whole numbers."""

import math
import struct
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from tilewright.emulator.semantics.matrices.accumulation import ADDERS, Adder, factors_of, hardware_sum

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
}
FAMILIES = {"e4m3": "fp8", "e5m2": "fp8"}
NAN = 0x7FFFFFFF


def bits(value):
    return np.asarray(value, np.float32).view(np.uint32)


def added(instruction, kind, a, b, c=0.0, accumulator="f32", b_type=None):
    """One sum: a row of A times a column of B plus c, as float32."""
    adder = ADDERS[instruction, FAMILIES.get(kind, kind)]
    row, column = (
        np.array(values, TYPES[each]).astype(np.float32) for values, each in ((a, kind), (b, b_type or kind))
    )
    start = np.full((1, 1), c, np.float32)
    return hardware_sum(adder, factors_of(row[None], column[:, None], kind, b_type or kind), start, accumulator)[0, 0]


# The slow reference ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """significand * 2**unit, a significand of 1 to 2 counting with `exponent`; value: if it is not finite."""

    significand: int
    unit: int
    exponent: int
    value: float = 0.0


FIELDS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "e4m3": (4, 3), "e5m2": (5, 2), "f32": (8, 23)}


def number(value, kind):
    """A value as its bits say, without any arithmetic of floating point."""
    exponent_bits, mantissa_bits = FIELDS[kind]
    pattern = int(np.array(value, TYPES[kind]).view(f"u{np.dtype(TYPES[kind]).itemsize}"))
    if kind == "tf32":
        pattern >>= 13
    sign = -1 if pattern >> (exponent_bits + mantissa_bits) else 1
    field = pattern >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = pattern & (1 << mantissa_bits) - 1
    all_ones = field == (1 << exponent_bits) - 1
    if all_ones and (kind != "e4m3" or mantissa == 7):
        return Number(0, 0, 0, math.nan if mantissa else sign * math.inf)
    bias = (1 << exponent_bits - 1) - 1
    exponent = max(field, 1) - bias
    return Number(sign * (mantissa + (field > 0) * (1 << mantissa_bits)), exponent - mantissa_bits, exponent)


def step(products, c, fraction_bits, sum_bits, accumulator):
    """One step of the hardware, in whole numbers; a float."""
    special = [x.value * (y.value or y.significand) for x, y in products if x.value] + [
        y.value * x.significand for x, y in products if y.value and not x.value
    ]
    if not all(math.isfinite(value) for value in [*special, c.value]):
        return sum(special) + c.value
    terms = [(x.significand * y.significand, x.unit + y.unit, x.exponent + y.exponent) for x, y in products]
    terms.append((c.significand, c.unit, c.exponent))
    top = max(exponent if significand else -133 for significand, _, exponent in terms)
    quantum = top - fraction_bits
    total = 0
    for significand, unit, _ in terms:
        shift = unit - quantum
        magnitude = abs(significand) << shift if shift >= 0 else abs(significand) >> -shift
        total += magnitude if significand > 0 else -magnitude
    magnitude, sign = abs(total), -1 if total < 0 else 1
    bias, kept = (14, 10) if accumulator == "f16" else (126, sum_bits)
    drop = max(magnitude.bit_length() - 1 + quantum, -bias) - kept - quantum
    if drop <= 0:
        whole, drop = magnitude, 0
    else:
        whole, rest = magnitude >> drop, magnitude & (1 << drop) - 1
        half = 1 << drop - 1
        if accumulator == "f16":
            whole += rest > half or (rest == half and whole & 1)
    largest = 65504 if accumulator == "f16" else float(np.finfo(np.float32).max)
    size = math.ldexp(whole, drop + quantum)
    return math.copysign(size if size <= largest else math.inf, sign if total else 1)


def slow(instruction, kind, a, b, c, accumulator, b_type=None):
    """The same as `added`, from the rules once more."""
    adder = ADDERS[instruction, FAMILIES.get(kind, kind)]
    kinds = ("f16", "f16") if adder.unpacked else (kind, b_type or kind)
    pairs = [(number(x, kinds[0]), number(y, kinds[1])) for x, y in zip(a, b, strict=True)]
    depth = len(pairs)
    if adder.unpacked:
        parts = [[pairs[k] for k in range(depth) if k % 4 in chosen] for chosen in ((0, 1), (2, 3))]
    else:
        parts = [pairs[depth * i // adder.steps : depth * (i + 1) // adder.steps] for i in range(adder.steps)]
    total = 0.0 if adder.unpacked else c
    for part in parts:
        total = step(part, number(total, accumulator), adder.fraction_bits, adder.sum_bits, accumulator)
    if adder.unpacked:
        total = np.float32(total) + np.float32(c)
        total = np.float32(np.float16(total)) if accumulator == "f16" else total
    return total


DEPTHS = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (16, 32), "e5m2": (16, 32)}


def values(rng, kind, count, spread):
    """Values whose exponents lie far from each other, some zero, and random bits."""
    dtype = np.dtype(TYPES[kind])
    size = 8 * dtype.itemsize
    made = (rng.standard_normal(count) * np.exp2(rng.integers(-spread, spread + 1, count))).astype(dtype)
    chaotic = rng.integers(0, 1 << size, count, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    chosen = np.where(rng.random(count) < 0.1, chaotic, made)
    chosen = np.where(rng.random(count) < 0.05, np.zeros(count, dtype), chosen)
    if kind == "tf32":
        return (chosen.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return chosen


@pytest.mark.parametrize("spread", [0, 3, 12, 60])
@pytest.mark.parametrize(
    ("instruction", "kind", "b_type", "accumulator"),
    [
        (instruction, kind, b_type, accumulator)
        for instruction, family in ADDERS
        for kind in [each for each in DEPTHS if FAMILIES.get(each, each) == family]
        for b_type in (("e4m3", "e5m2") if family == "fp8" else (kind,))
        for accumulator in (("f32", "f16") if family in ("f16", "fp8") else ("f32",))
    ],
)
def test_sums_are_those_of_the_slow_reference(instruction, kind, b_type, accumulator, spread):
    rng = np.random.default_rng(spread)
    for depth in DEPTHS[kind]:
        for _ in range(40):
            with np.errstate(all="ignore"):
                a, b = values(rng, kind, depth, spread), values(rng, b_type, depth, spread)
                c = np.float32(values(rng, accumulator, 1, 2 * spread)[0])
                expected = slow(instruction, kind, a, b, c, accumulator, b_type)
            found = added(instruction, kind, a, b, c, accumulator, b_type)
            same = bits(found) == (NAN if math.isnan(expected) else bits(expected))
            assert same, (a, b, c, float(found), expected)


# By hand --------------------------------------------------------------------------------------------------------------


def one_hot(depth, **terms):
    """A row of A and a column of B, from products given by their k, as in k3=(2.0, 0.5)."""
    a, b = [0.0] * depth, [0.0] * depth
    for key, (x, y) in terms.items():
        a[int(key[1:])], b[int(key[1:])] = x, y
    return a, b


@pytest.mark.parametrize("instruction", ["mma", "wgmma", "wmma"])
@pytest.mark.parametrize(("small", "kept"), [(2.0**-12, True), (2.0**-13, False)])
def test_a_term_below_25_bits_of_the_largest_is_lost(instruction, small, kept):
    """1 - 1 leaves the small product, unless it was cut when it was aligned to 1."""
    a, b = one_hot(16, k0=(1.0, 1.0), k1=(1.0, -1.0), k2=(small, 2.0**-13))
    assert added(instruction, "f16", a, b) == (small * 2.0**-13 if kept else 0.0)


def test_terms_below_the_last_place_add_up_before_the_sum_is_cut():
    """Fifteen products of 2^-25 make 3.75 last places of 1; three quarters of one are cut."""
    a, b = one_hot(16, k0=(1.0, 1.0), **{f"k{k}": (2.0**-12, 2.0**-13) for k in range(1, 16)})
    assert added("wgmma", "bf16", a, b) == 1 + 3 * 2.0**-23


def test_fp8_of_wgmma_keeps_13_bits_of_terms_and_sums():
    """448^2 has the exponents 8 + 8, so terms keep 2^3; it is above 2^17, so the sum keeps 2^4."""
    a, b = one_hot(32, k0=(448.0, 448.0), k1=(1.0, 7.0))
    assert added("wgmma", "e4m3", a, b) == 448.0**2
    a, b = one_hot(32, k0=(448.0, 448.0), k1=(1.0, 8.0))
    assert added("wgmma", "e4m3", a, b) == 448.0**2
    a, b = one_hot(32, k0=(448.0, 448.0), k1=(1.0, 8.0), k2=(1.0, 8.0))
    assert added("wgmma", "e4m3", a, b) == 448.0**2 + 16


def test_fp8_of_wgmma_cuts_the_accumulator_before_anything_is_added():
    """1 + 2^-14 has a bit too many, and does not survive products of zeros."""
    assert added("wgmma", "e4m3", [0.0] * 32, [0.0] * 32, 1 + 2.0**-14) == 1.0
    assert added("wgmma", "e4m3", [0.0] * 32, [0.0] * 32, 1 + 2.0**-13) == 1 + 2.0**-13


def test_fp8_of_mma_is_f16_in_two_steps_to_which_c_is_added_last():
    """C is rounded to the nearest, ties to even; wgmma cuts it."""
    a, b = one_hot(32, k0=(1.0, 1.0))
    assert added("mma", "e4m3", a, b, 2.0**-24) == 1.0
    assert added("mma", "e4m3", a, b, 3 * 2.0**-24) == 1 + 2.0**-22
    assert added("mma", "e4m3", a, b, -(2.0**-26)) == 1.0
    assert added("wgmma", "e5m2", a, b, -(2.0**-13)) == 1 - 2.0**-13


def test_the_halves_of_a_word_of_fp8_are_different_steps():
    """2^-12 is lost beside 2^16, but not if k 6, of an upper half, comes after 2^16 - 2^16 of a lower half."""
    big, small = (256.0, 256.0), (2.0**-6, 2.0**-6)
    minus = (-256.0, 256.0)
    assert added("mma", "e4m3", *one_hot(16, k0=big, k1=minus, k4=small)) == 0.0
    assert added("mma", "e4m3", *one_hot(16, k0=big, k2=minus, k6=small)) == 0.0
    assert added("mma", "e4m3", *one_hot(16, k0=big, k1=minus, k6=small)) == 2.0**-12


def test_subnormals_of_fp8_are_normal_numbers_of_f16():
    """2^-9 of e4m3 keeps its exponent -9 in mma, and counts as -6 in wgmma: there 2^-20 is lost beside it."""
    terms = one_hot(32, k0=(2.0**-9, 1.0), k1=(-(2.0**-9), 1.0), k4=(2.0**-9, 2.0**-9), k5=(2.0**-9, 2.0**-9))
    assert added("mma", "e4m3", *terms) == 2.0**-17
    assert added("wgmma", "e4m3", *terms) == 2.0**-17
    terms = one_hot(32, k0=(2.0**-9, 2.0**2), k1=(-(2.0**-9), 2.0**2), k4=(2.0**-9, 2.0**-9))
    assert added("mma", "e4m3", *terms) == 2.0**-18
    assert added("wgmma", "e4m3", *terms) == 0.0


def test_tf32_of_wmma_adds_four_products_and_then_four():
    """2^-26 is lost beside 1, but not after 1 - 1."""
    a, b = one_hot(8, k0=(1.0, 1.0), k1=(1.0, -1.0), k4=(2.0**-13, 2.0**-13))
    assert added("wmma", "tf32", a, b) == 2.0**-26
    assert added("mma", "tf32", a, b) == 0.0


def test_results_of_f32_are_cut_and_of_f16_rounded_to_even():
    a, b = one_hot(16, k0=(1.0, 1.0), k1=(2.0**-11, 1.0))
    assert added("mma", "f16", a, b, accumulator="f16") == 1.0
    a, b = one_hot(16, k0=(1.0, 1.0), k1=(2.0**-10, 1.5))
    assert added("mma", "f16", a, b, accumulator="f16") == 1 + 2.0**-9
    a, b = one_hot(16, k0=(-1.0, 1.0), k1=(-(2.0**-12), 2.0**-12))
    assert added("mma", "f16", a, b) == -1.0
    a, b = one_hot(16, k0=(-1.0, 1.0), k1=(2.0**-12, 2.0**-12))
    assert added("mma", "f16", a, b) == -1 + 2.0**-24


def test_subnormals_are_kept():
    tiny = 2.0**-24
    assert added("mma", "f16", [tiny] * 16, [tiny] * 16) == 16 * tiny * tiny
    assert added("mma", "f16", [tiny] * 16, [1.0] * 16, accumulator="f16") == 16 * tiny
    least = float(np.finfo(np.float32).smallest_subnormal)
    assert added("wgmma", "bf16", [0.0] * 16, [0.0] * 16, least) == least
    assert added("wgmma", "bf16", *one_hot(16, k0=(2.0**-126, 2.0**-22)), -least) == 2.0**-148 - least
    assert added("wgmma", "e5m2", [0.0] * 32, [0.0] * 32, least) == 0.0  # 13 bits of 2^-126 end at 2^-139
    assert added("wgmma", "e5m2", [0.0] * 32, [0.0] * 32, 2.0**-139) == 2.0**-139


def test_leading_zeros_of_a_subnormal_count_for_its_exponent():
    """2^-24 of f16 has the exponent -14, so 2^-40 is lost beside it and 2^-39 is not."""
    for other, kept in ((2.0**-16, False), (2.0**-15, True)):
        a, b = one_hot(16, k0=(2.0**-24, 1.0), k1=(-(2.0**-24), 1.0), k2=(2.0**-24, other))
        assert added("mma", "f16", a, b) == (2.0**-24 * other if kept else 0.0)


def test_infinities_and_nans():
    inf, nan = math.inf, math.nan
    assert added("mma", "f16", *one_hot(16, k3=(inf, 2.0))) == inf
    assert added("wgmma", "e5m2", *one_hot(32, k3=(-inf, 2.0)), 5.0) == -inf
    for a, b, c in (
        (*one_hot(16, k0=(inf, 1.0), k1=(-inf, 1.0)), 0.0),
        (*one_hot(16, k0=(inf, 0.0)), 0.0),
        (*one_hot(16, k0=(1.0, 1.0)), -nan),
        (*one_hot(16, k0=(inf, 1.0)), -inf),
        (*one_hot(16, k0=(nan, 0.0)), inf),
    ):
        assert bits(added("mma", "f16", a, b, c)) == NAN
        assert np.float16(added("wgmma", "f16", a, b, c, "f16")).view(np.uint16) == 0x7FFF


def test_sums_overflow_to_infinity_and_products_do_not():
    large = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    assert added("wgmma", "bf16", *one_hot(16, k0=(large, large), k1=(-large, large), k2=(1.0, 1.0))) == 0.0
    assert added("wgmma", "bf16", *one_hot(16, k0=(-large, 2.0))) == -math.inf
    most = np.finfo(np.float32).max
    assert added("wgmma", "bf16", *one_hot(16, k0=(2.0**63, 2.0**40)), most) == most  # cut, not rounded up
    assert added("wgmma", "bf16", *one_hot(16, k0=(2.0**64, 2.0**40)), most) == math.inf
    assert added("mma", "f16", *one_hot(16, k0=(65504.0, 1.0), k1=(16.0, 1.0)), 0.0, "f16") == math.inf
    assert added("mma", "f16", *one_hot(16, k0=(65504.0, 1.0), k1=(15.0, 1.0)), 0.0, "f16") == 65504


def test_a_sum_of_zeros_is_positive():
    zeros = [-0.0] * 16
    assert bits(added("mma", "f16", zeros, [1.0] * 16, -0.0)) == 0
    assert bits(added("mma", "f16", [1.0] * 16, [1.0, -1.0] * 8)) == 0


def test_a_term_of_zero_counts_with_an_exponent_of_its_own():
    """That is -133: 2^-159 is lost, and 2^-149 stays; 2^-158 is not, and what it leaves of 2^-149 is cut."""
    a, b = one_hot(16, k0=(2.0**-80, 2.0**-69), k1=(-(2.0**-80), 2.0**-79))
    assert added("wgmma", "bf16", a, b) == 2.0**-149
    a, b = one_hot(16, k0=(2.0**-80, 2.0**-69), k1=(-(2.0**-80), 2.0**-78))
    assert added("wgmma", "bf16", a, b) == 0.0


def test_what_is_cut_to_zero_is_positive():
    a, b = one_hot(16, k0=(-(2.0**-80), 2.0**-75))
    assert bits(added("wgmma", "bf16", a, b)) == 0


def test_operands_of_many_tiles_give_what_each_gives_alone():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 3, 64, 32)).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    b = rng.standard_normal((1, 3, 32, 8)).astype(ml_dtypes.float8_e5m2).astype(np.float32)
    c = rng.standard_normal((2, 3, 64, 8)).astype(np.float32)
    adder = Adder(fraction_bits=13, sum_bits=13)
    found = hardware_sum(adder, factors_of(a, b, "e4m3", "e5m2"), c, "f32")
    for tile, cta, m, n in ((0, 0, 0, 0), (1, 2, 63, 7), (0, 1, 17, 3)):
        alone = added("wgmma", "e4m3", a[tile, cta, m], b[0, cta, :, n], c[tile, cta, m, n], b_type="e5m2")
        assert found[tile, cta, m, n] == alone


def test_the_slow_reference_reads_bits():
    assert (number(1.5, "f16").significand, number(1.5, "f16").unit) == (1536, -10)
    assert number(struct.unpack("f", struct.pack("I", 1))[0], "f32") == Number(1, -149, -126)
    assert math.isnan(number(np.nan, "e4m3").value)
    assert number(448.0, "e4m3") == Number(14, 5, 8)
