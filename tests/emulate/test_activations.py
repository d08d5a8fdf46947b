"""Activations for results of 16 bits: every value that such an argument may have, and those of fp32 between them."""

import numpy as np
import pytest

from support.expressions import applied
from tilewright.dtypes import bf16, fp16
from tilewright.expression.evaluation import Bounded, evaluate
from tilewright.expression.grammar import parse

GELUS = ("gelu", "gelu_tanh")


def values_of(kind):
    """Every finite number of a type, in order."""
    every = np.arange(1 << 16, dtype=np.uint16).view(kind.numpy_dtype).astype(np.float32)
    return np.sort(every[np.isfinite(every)])


def between(first, last):
    """2^17 numbers of fp32 from one to the other."""
    return np.linspace(first, last, 1 << 17, dtype=np.float32)


def errors(name, kind, arguments):
    """By how much each result is off before it is rounded, and after; its bound; and the right value."""
    padded = np.resize(arguments, -(-len(arguments) // 1024) * 1024)
    found = applied(parse(f"{name}(acc)", ()), {"acc": padded}, kind)[: len(arguments)]
    exact = {"acc": Bounded(arguments.astype(np.float64), np.zeros(len(arguments)))}
    value, bound = evaluate(parse(f"{name}(acc)", ()), exact, kind)
    known = np.isfinite(bound)
    with np.errstate(over="ignore"):
        rounded = found.astype(kind.numpy_dtype).astype(np.float64)
    value, found, rounded = value[known], found[known], rounded[known]
    return np.abs(found - value), np.abs(rounded - value), bound[known], value


@pytest.mark.parametrize("name", GELUS)
@pytest.mark.parametrize("kind", [bf16, fp16], ids=str)
@pytest.mark.parametrize("arguments", [values_of, lambda kind: between(-9, 9)], ids=["every value", "fp32"])
def test_a_short_gelu_is_within_its_bound(name, kind, arguments):
    error, rounded, bound, value = errors(name, kind, arguments(kind))
    assert np.all(error <= bound)
    smallest = float(np.finfo(np.float16).smallest_subnormal) if kind is fp16 else 2.0**-133
    assert np.all(rounded <= bound + kind.epsilon / 2 * (np.abs(value) + bound) + smallest)


@pytest.mark.parametrize("name", GELUS)
@pytest.mark.parametrize(("kind", "least"), [(bf16, 2.0**-10), (fp16, 2.0**-6)], ids=str)
def test_small_results_keep_their_accuracy(name, kind, least):
    """Down to `least`, a result is off by less than a step of its type, to either side of zero."""
    _, rounded, _, value = errors(name, kind, between(-9, 9))
    large = np.abs(value) > least
    assert value[large].min() < -least
    assert np.all(rounded[large] < kind.epsilon * np.abs(value[large]))


@pytest.mark.parametrize("name", GELUS)
@pytest.mark.parametrize("kind", [bf16, fp16], ids=str)
def test_the_ends_are_those_of_gelu(name, kind):
    arguments = np.resize(np.array([np.nan, np.inf, -np.inf, 0.0, -20.0, -3e38, 3e38, 20.0], np.float32), 32)
    found = applied(parse(f"{name}(acc)", ()), {"acc": arguments}, kind)[:8]
    np.testing.assert_array_equal(found, np.array([np.nan, np.inf, 0, 0, 0, 0, 3e38, 20], np.float32))
