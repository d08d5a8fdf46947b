"""The tests' own tools: the generator covers what it promises, and a wrong kernel is noticed."""

from collections import Counter
from random import Random

import ml_dtypes
import numpy as np
import pytest

from support.cases import Memory, over_blocks, posed, random_case, random_cases, variants_of
from support.reference import check, overflow_threshold, reference
from support.rungs import LADDER_VARIANTS, RUNGS
from support.variants import VARIANTS
from tilewright import dtypes
from tilewright.hardware import H200
from tilewright.jit.cache import KernelCache
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS

MAX_UNITS = 195


def features(case):
    """What is odd about a case."""
    problem, inputs = case.problem(), [view for name, view in case.views().items() if name != "out"]
    strides = [stride for view in inputs for stride in view.strides]
    yield f"data {case.data}"
    yield from (f"{name}=1" for name in "mnk" if getattr(problem, name) == 1)
    if not case.variant.by_tma:
        if problem.k == 0:
            yield "k=0"
        if case.alpha == 0:
            yield "alpha=0"
        if min(*strides, *case.out.strides, 0) < 0:
            yield "negative strides"
        if 0 in case.a.strides + case.b.strides:
            yield "broadcast strides"
    if problem.batch:
        yield "batch"
    if case.a.shape[:-2] != case.b.shape[:-2]:
        yield "broadcast batch"
    if min(len(case.a.shape), len(case.b.shape)) == 1:
        yield "1-D"
    if len(case.out.shape) > 1 and case.out.strides[-2] == 1 and case.out.shape[-2] > 1:
        yield "column-major out"
    if case.in_place:
        yield "out is c"
    if case.c is not None and case.beta == 0:
        yield "c with beta=0"
    if case.bias is not None:
        padded = (1,) * (2 - len(case.bias.shape)) + case.bias.shape
        kind = {(False, True): "row", (True, False): "column", (True, True): "full", (False, False): "scalar"}
        yield "bias " + kind[tuple(extent > 1 for extent in padded[-2:])]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_generator_reaches_every_freedom(kernel):
    counts = Counter(feature for case in random_cases(kernel, 4000, seed=1) for feature in features(case))
    expected = {"data integers", "data normal", "data special", "m=1", "n=1", "k=1", "batch", "broadcast batch", "1-D"}
    expected |= {"column-major out", "out is c", "c with beta=0"}
    expected |= {"bias row", "bias column", "bias full", "bias scalar"}
    if variants_of(kernel)[0].sumless:
        expected -= {"k=1"}
    if not variants_of(kernel)[0].by_tma:
        expected |= {"negative strides", "broadcast strides", "k=0", "alpha=0"}
    assert set(counts) == expected
    assert min(counts.values()) >= 5, counts


def test_cases_of_a_variant_share_its_translation_unit_and_there_are_few():
    cache = KernelCache("unused", ())

    def key(case):
        problem, variant = posed(case), case.variant
        return cache.key(EVERY_KERNEL[variant.kernel].assemble(variant.config, problem, H200).source, H200.arch)

    variants = (*VARIANTS, *LADDER_VARIANTS)
    keys = [{key(random_case(variant, Random(seed))) for seed in range(20)} for variant in variants]
    assert [len(found) for found in keys] == [1] * len(variants)
    assert len(set.union(*keys)) == len(variants)
    assert len(VARIANTS) <= MAX_UNITS
    assert {variant.kernel for variant in VARIANTS} == set(KERNELS)
    assert {variant.kernel for variant in LADDER_VARIANTS} == set(RUNGS)


def test_equal_seeds_make_equal_cases():
    assert list(random_cases("mma", 30, 5)) == list(random_cases("mma", 30, 5))
    assert list(random_cases("mma", 30, 5)) != list(random_cases("mma", 30, 6))


# ---------------------------------------------------------------- a wrong kernel is noticed


def honest_kernel(memory):
    """What a right kernel does, with NumPy in fp32, for the cases below."""
    case, arrays = memory.case, memory.arrays
    one = np.ones((), np.float32)
    scales = {name: over_blocks(arrays.get(f"scale_{name}", one), arrays[name].shape) for name in "ab"}
    a = (arrays["a"].astype(np.float32) - arrays.get("zero_a", np.int32(0)).astype(np.float32)) * scales["a"]
    b = arrays["b"].astype(np.float32) * scales["b"]
    with np.errstate(invalid="ignore", over="ignore"):
        value = np.float32(case.alpha) * (a @ b) if case.alpha else np.zeros((), np.float32)
        if case.beta:
            value = value + np.float32(case.beta) * arrays["c"].astype(np.float32)
        if "bias" in arrays:
            value = value + arrays["bias"].astype(np.float32)
        if case.variant.activation == "relu":
            value = np.where(value < 0, np.float32(0), value)
        if case.variant.out_dtype.startswith("fp8"):
            largest = float(ml_dtypes.finfo(arrays["out"].dtype).max)
            value = np.clip(value / arrays.get("scale_out", np.float32(1)), -largest, largest)
        arrays["out"][...] = value


def some_cases(count, **wanted):
    """Cases without transcendental activations whose out has at least 4 elements."""
    pool = (case for seed in range(99) for kernel in ("simt", "mma") for case in random_cases(kernel, 50, seed))
    for case in pool:
        variant = case.variant
        plain = variant.activation in (None, "relu") and variant.epilogue is None
        if (
            plain
            and np.prod(case.out.shape) >= 4
            and case.alpha
            and all(getattr(case, name) == value for name, value in wanted.items())
        ):
            yield case
            count -= 1
            if not count:
                return


def test_a_right_kernel_passes():
    for case in some_cases(150):
        memory = Memory(case)
        honest_kernel(memory)
        memory.verify()


def leaves_an_element(memory):
    out = memory.arrays["out"]
    out[(-1,) * out.ndim] = np.nan if out.dtype != np.int32 else -1


def drops_the_last_product(memory):
    memory.arrays["a"] = memory.arrays["a"][..., :-1]
    memory.arrays["b"] = memory.arrays["b"][..., :-1, :] if memory.arrays["b"].ndim > 1 else memory.arrays["b"][:-1]
    honest_kernel(memory)


def is_off_by_one_step(memory):
    out = memory.arrays["out"]
    first = (0,) * out.ndim
    if out.dtype == np.int32:
        out[first] += 1
    else:
        out[first] = np.nextafter(out[first], np.array(np.inf, out.dtype), dtype=out.dtype)


@pytest.mark.parametrize(
    ("fault", "data"),
    [(leaves_an_element, "normal"), (drops_the_last_product, "normal"), (is_off_by_one_step, "integers")],
)
def test_a_wrong_result_is_noticed(fault, data):
    for case in some_cases(40, data=data):
        if case.variant.activation or case.a.shape[-1] == 0:
            continue
        memory = Memory(case)
        honest_kernel(memory)
        fault(memory)
        with pytest.raises(AssertionError, match=r"out\[.*\] is .*, expected .* elements? are wrong"):
            memory.verify()


@pytest.mark.parametrize("name", ["a", "b", "out"])
def test_a_stray_write_is_noticed(name):
    for case in some_cases(20):
        memory = Memory(case)
        honest_kernel(memory)
        outside = np.flatnonzero(memory.buffers[name].outside())
        for position in (outside[0], outside[len(outside) // 2], outside[-1]):
            memory.buffers[name].bytes[position] ^= 1
            with pytest.raises(AssertionError, match=f"bytes of {name}'s memory changed"):
                memory.verify()
            memory.buffers[name].bytes[position] ^= 1
        memory.verify()


def test_a_changed_input_is_noticed():
    for case in some_cases(10):
        if np.prod(case.b.shape):
            memory = Memory(case)
            honest_kernel(memory)
            memory.buffers["b"].bytes[memory.buffers["b"].start] ^= 1
            with pytest.raises(AssertionError, match="bytes of b's memory changed"):
                memory.verify()


# ---------------------------------------------------------------- the reference


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_overflow_is_where_numbers_round_to_infinity(dtype):
    limit = overflow_threshold(dtype)
    with np.errstate(over="ignore"):
        assert np.isinf(np.float64(limit).astype(dtype.numpy_dtype))
        assert np.isfinite(np.float64(limit * (1 - 2.0**-20)).astype(dtype.numpy_dtype))


def test_overflow_nan_and_infinity_are_compared_by_kind():
    a = np.array([[300.0, np.inf, np.nan, 1.0, -np.inf]], np.float16).T
    expected = reference(a, np.array([[300.0]], np.float16), out_dtype="fp16")
    right = np.array([[np.inf, np.inf, np.nan, 300, -np.inf]], np.float16).T
    check(right, expected)
    for row, wrong in enumerate((65504, 65504, 0, np.inf, np.inf)):
        out = right.copy()
        out[row] = wrong
        with pytest.raises(AssertionError, match=rf"out\[{row}, 0\].*1 of 5 elements"):
            check(out, expected)


def test_alpha_and_beta_of_zero_do_not_read():
    nan = np.full((3, 3), np.nan, np.float32)
    one = np.ones((3, 3), np.float32)
    check(one, reference(nan, nan, c=one, alpha=0, beta=1, out_dtype="fp32", exact=True))
    check(3 * one, reference(one, one, c=nan, alpha=1, beta=0, out_dtype="fp32", exact=True))


@pytest.mark.parametrize(
    ("activation", "at_minus_one", "at_two"),
    [
        ("relu", 0.0, 2.0),
        ("gelu", -0.15865525393145707, 1.9544997361036416),  # x times the normal distribution's cdf
        ("gelu_tanh", -0.15880800939172324, 1.954597694087775),
        ("silu", -0.2689414213699951, 1.7615941559557646),  # x times the logistic function
    ],
)
def test_activations_by_known_values(activation, at_minus_one, at_two):
    a = np.array([[-1.0], [2.0]], np.float32)
    expected = reference(a, np.ones((1, 1), np.float32), activation=activation, out_dtype="fp32")
    np.testing.assert_allclose(expected.values.ravel(), [at_minus_one, at_two], rtol=1e-12)
    assert expected.bound.max() < 2e-5


def test_the_bound_of_a_bf16_result_is_half_a_step_and_little_more():
    a = np.random.default_rng(1).standard_normal((8, 100)).astype(ml_dtypes.bfloat16)
    expected = reference(a, a.T, out_dtype="bf16")
    steps = expected.bound / (abs(expected.values) * 2.0**-8)
    assert steps.min() >= 1
    assert np.median(steps) < 1.5
