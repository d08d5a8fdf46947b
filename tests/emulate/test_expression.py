"""Expressions as the kernels compute them, against float64 and its bound."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.expressions import EXPRESSIONS, applied
from tilewright.expression.evaluation import Bounded, evaluate
from tilewright.expression.grammar import parse
from tilewright.expression.tree import FUNCTIONS, OPERATIONS

LANES = 32


def inputs(seed, scale):
    """fp32 values of both signs for `acc`, which is off by up to its error, and for the operands, which are exact.

    Some of these are infinite or missing.
    """
    rng = np.random.default_rng(seed)
    exact = {name: rng.normal(0, scale, LANES).astype(np.float32) for name in ("acc", "bias", "scale")}
    exact["bias"][:3] = exact["scale"][2:5] = np.inf, -np.inf, np.nan
    error = np.abs(exact["acc"]) * 2.0**-18
    computed = exact | {"acc": (exact["acc"] + rng.uniform(-0.9, 0.9, LANES) * error).astype(np.float32)}
    values = {name: Bounded(array.astype(np.float64), np.zeros(LANES)) for name, array in exact.items()}
    return computed, values | {"acc": Bounded(values["acc"].value, error)}


def differences(expression, seed, scale):
    """The error of each known finite element, its bound, and the magnitude of what is computed there.

    What must be infinite or NaN is required to be.
    """
    computed, values = inputs(seed, scale)
    out = applied(expression, computed).astype(np.float64)
    expected, bound = np.broadcast_arrays(*evaluate(expression, values))
    special = ~np.isfinite(expected)
    np.testing.assert_array_equal(out[special], expected[special])
    known = np.isfinite(bound) & ~special
    argument = np.abs(values["acc"].value)
    magnitude = argument + np.where(known, np.abs(expected), 0) * (1 + argument)
    return np.abs(out[known] - expected[known]), bound[known], magnitude[known]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(EXPRESSIONS, st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 30.0, 1e10]))
def test_the_cuda_of_any_expression_is_within_the_bound(expression, seed, scale):
    error, bound, _ = differences(expression, seed, scale)
    assert np.all(error <= bound)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if OPERATIONS[name][0] == 1])
def test_a_function_is_within_a_narrow_bound(name, scale):
    argument = "abs(acc)" if name in ("log", "sqrt", "rsqrt") else "acc"
    error, bound, magnitude = differences(parse(f"{name}({argument})", ()), 0, scale)
    assert len(error) >= LANES // 4
    assert np.all(error <= bound)
    assert np.all(bound <= 2e-5 * magnitude)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        *[(f"{name}(x) + acc", 0) for name in ("abs", "exp", "log", "sqrt", "tanh", "erf", "relu")],
        *[(f"{name}(x) + acc", 14) for name in ("sigmoid", "gelu", "gelu_tanh", "silu")],  # at both infinities
        *[(f"x {sign} y + acc", 0) for sign in ("+", "-", "*")],
        ("x / y + acc", 4),  # whose signs at -0 are open
        *[(f"{name}(x, y) + acc", 0) for name in ("min", "max")],
        *[(f"where(x {sign} y, x, y) + acc", 0) for sign in ("<", "<=", ">", ">=", "==", "!=")],
    ],
)
def test_what_is_infinite_or_missing_is_known_and_right(text, unknown):
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -3e38], np.float32)
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    values = {"acc": np.zeros(49, np.float32), "x": pairs[0], "y": pairs[1]}
    expression = parse(text, ["x", "y"] if "y" in text else ["x"])
    bounded = {name: Bounded(array.astype(np.float64), np.zeros(49)) for name, array in values.items()}
    expected, bound = np.broadcast_arrays(*evaluate(expression, bounded))
    known = np.isfinite(bound)
    assert np.count_nonzero(~known) == unknown
    out = applied(expression, values).astype(np.float64)
    np.testing.assert_allclose(out[known], expected[known], rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "abs", "sqrt"])
def test_zeros_have_the_sign_that_the_cuda_gives_them(name):
    values = {"acc": np.array([-0.0, 0.0], np.float32)}
    expression = parse(f"{name}(acc)", ())
    expected, _ = evaluate(expression, {"acc": Bounded(values["acc"].astype(np.float64), np.zeros(2))})
    np.testing.assert_array_equal(np.signbit(applied(expression, values)), np.signbit(expected))


def test_minimum_and_maximum_keep_nan():
    values = {"acc": np.array([1.0, np.nan, 2.0, np.nan]), "bias": np.array([2.0, 1.0, np.nan, np.nan])}
    for name, first in (("min", 1.0), ("max", 2.0)):
        out = applied(parse(f"{name}(acc, bias)", ["bias"]), values)
        assert out[0] == first
        assert np.isnan(out[1:]).all()
