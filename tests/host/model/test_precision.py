"""Formats against ml_dtypes, bit pattern by bit pattern, against published figures, and errors against their laws."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.dtypes import FLOATS
from tilewright.errors import ArgumentValueError
from tilewright.model.precision.formats import FORMATS, format_named
from tilewright.model.precision.sums import error_growth

PEERS = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize(
    ("name", "normal", "subnormal", "most"),
    [
        ("fp16", 6.1e-5, 6.0e-8, 65504),
        ("bf16", 1.2e-38, 9.2e-41, 3.39e38),
        ("e4m3", 0.0156, 0.00195, 448),
        ("e5m2", 6.1e-5, 1.5e-5, 57344),
        ("e2m1", 1, 0.5, 6),
    ],
)
def test_the_published_ranges(name, normal, subnormal, most):
    form = FORMATS[name]
    assert form.least_normal == pytest.approx(normal, rel=0.02)
    assert form.least_subnormal == pytest.approx(subnormal, rel=0.02)
    assert form.most == pytest.approx(most, rel=0.001)


def test_epsilon_is_that_of_the_element_types():
    for dtype in FLOATS:
        assert FORMATS[dtype.name].epsilon == dtype.epsilon
    assert FORMATS["fp64"].epsilon == np.finfo(np.float64).eps
    assert FORMATS["fp64"].most == np.finfo(np.float64).max
    assert FORMATS["tf32"].bits == 19


@pytest.mark.parametrize("name", PEERS)
def test_every_pattern_of_16_bits_and_fewer(name):
    form, peer = FORMATS[name], PEERS[name]
    container = np.uint16 if form.bits == 16 else np.uint8
    patterns = np.arange(form.patterns, dtype=container)
    with np.errstate(invalid="ignore"):  # some are NaN
        expected = patterns.view(peer).astype(np.float64)
    np.testing.assert_array_equal([form.decode(pattern) for pattern in range(form.patterns)], expected)


@pytest.mark.parametrize("name", PEERS)
def test_rounding_is_to_nearest_even(name):
    """Every number, every middle of two numbers, what lies beside it, and what lies beyond the largest."""
    form, peer = FORMATS[name], PEERS[name]
    numbers = np.array([form.decode(pattern) for pattern in range(form.patterns)])
    numbers = numbers[np.isfinite(numbers)]
    middles = (numbers[1:] + numbers[:-1]) / 2
    beyond = form.most * np.array([1.01, 1.5, 2, 1000]) if name != "bf16" else np.array([])
    values = np.concatenate([numbers, middles, middles * (1 + 1e-6), middles * (1 - 1e-6), beyond])
    values = np.concatenate([values, -values]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(peer).astype(np.float64)
    np.testing.assert_array_equal(form.rounded(values), expected)


def test_fp32_and_infinities():
    values = np.random.default_rng(0).standard_normal(1000) * 1e30
    np.testing.assert_array_equal(FORMATS["fp32"].rounded(values), values.astype(np.float32))
    assert FORMATS["fp16"].rounded([1e5, -1e5, np.inf, 0.0]).tolist() == [np.inf, -np.inf, np.inf, 0]
    assert np.isnan(FORMATS["e4m3"].rounded([480.0, np.nan])).all()
    assert FORMATS["e2m1"].rounded([100.0, -7.0]).tolist() == [6, -6]


def test_what_is_no_format_and_no_pattern():
    with pytest.raises(ArgumentValueError, match="use fp64, fp32, tf32"):
        format_named("fp12")
    assert format_named("e4m3").decode(0x7E) == 448
    with pytest.raises(ArgumentValueError, match="pattern=8 has more bits than e2m1: use 0 to 7"):
        FORMATS["e2m1"].decode(8)


def growth(inputs, accumulator, ks, **settings):
    return error_growth(FORMATS[inputs], FORMATS[accumulator], ks, **settings)


def test_rounding_inputs_costs_the_same_at_any_k():
    """A product of two rounded numbers errs by the root of 2 of one's error, and a sum has as many of them as parts."""
    errors = [each.inputs for each in growth("bf16", "fp32", (64, 512, 4096))]
    assert max(errors) < 1.2 * min(errors)
    assert 0.2 < errors[0] / FORMATS["bf16"].epsilon < 0.6
    halves = growth("fp16", "fp32", (512,))[0].inputs
    assert errors[1] / halves == pytest.approx(8, rel=0.1)


def test_adding_in_few_bits_costs_the_more_the_longer_the_sum():
    short, long = growth("fp16", "fp16", (64, 4096))
    assert 4 < long.sum / short.sum < 16  # the root of 64, which is the growth of the sum's own roundings
    assert growth("fp16", "fp32", (4096,))[0].sum < long.sum / 1000


def test_sums_of_positive_numbers_stand_still_in_few_bits():
    """From 256 on, bf16 has only even numbers, so that no product below 1 is added: 256 is left of 8192 / 4."""
    (found,) = growth("bf16", "bf16", (8192,), numbers="positive")
    assert found.sum == pytest.approx(7 / 8, rel=0.01)
    assert growth("bf16", "fp32", (8192,), numbers="positive")[0].sum < 1e-4


def test_promotion_stops_the_growth():
    never = growth("e4m3", "e8m13", (8192,), numbers="positive")[0]
    often = growth("e4m3", "e8m13", (8192,), numbers="positive", promote=128)[0]
    assert often.sum < never.sum / 8
    assert often.inputs == never.inputs
    assert often.as_dict()["k"] == 8192


def test_nothing_is_lost_where_nothing_is_rounded():
    (found,) = growth("fp64", "fp64", (100,))
    assert found.inputs == 0
    assert found.total < 1e-14


@pytest.mark.parametrize(
    ("ks", "settings", "said"),
    [
        ((0,), {}, "k=0 must be an integer from 1 on"),
        ((), {}, "give some"),
        ((1 << 20,), {}, "lengths up to 65,536"),
        ((4,), {"samples": 0}, "samples=0 must be"),
        ((4,), {"promote": -1}, "promote=-1 must be"),
        ((4,), {"numbers": "ones"}, "use randn, positive"),
    ],
)
def test_lengths_and_numbers_that_cannot_be(ks, settings, said):
    with pytest.raises(ArgumentValueError, match=said):
        growth("bf16", "fp32", ks, **settings)
