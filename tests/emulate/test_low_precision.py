"""Products of fp8 and int8 as a caller makes them: results, their types, calls of a Plan, and values of scales."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.errors import ArgumentValueError, UnsupportedError
from tilewright.hardware import A100, standing_for

M, N, K = 37, 50, 200
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@pytest.fixture
def random():
    return np.random.default_rng(1)


def codes(random, *shape, dtype=E4M3):
    """Numbers that every type holds, whose sums are exact."""
    return random.integers(-4, 5, shape).astype(dtype)


def scales_of(random, recipe="row"):
    """Scales that are exact, and other ones in every row and column."""
    shapes = ((M, 1), (1, N)) if recipe == "row" else ((), ())
    return {
        name: np.asarray(2.0 ** random.integers(-4, 5, shape), np.float32)
        for name, shape in zip(("scale_a", "scale_b"), shapes, strict=True)
    }


def product(a, b, scales):
    """The exact product."""
    return (a.astype(np.float64) * scales["scale_a"]) @ (b.astype(np.float64) * scales["scale_b"])


@pytest.mark.parametrize(
    ("dtype", "recipe", "expected"),
    [
        (np.int8, None, np.int32),
        (np.int8, "row", ml_dtypes.bfloat16),
        (E4M3, None, ml_dtypes.bfloat16),
        (E5M2, "tensor", ml_dtypes.bfloat16),
    ],
)
def test_the_usual_type_of_the_result(random, dtype, recipe, expected):
    a, b = codes(random, M, K, dtype=dtype), codes(random, K, N, dtype=dtype)
    scales = {} if recipe is None else scales_of(random, recipe)
    out = tw.matmul(a, b, recipe=recipe, **scales, backend="emulator")
    assert out.dtype == expected
    exact = product(a, b, scales or {"scale_a": 1.0, "scale_b": 1.0})
    np.testing.assert_array_equal(out, exact.astype(expected))


@pytest.mark.parametrize("dtype", [np.int8, E4M3, E5M2], ids=lambda dtype: np.dtype(dtype).name)
def test_every_row_and_column_has_its_own_scale(random, dtype):
    a, b, scales = codes(random, M, K, dtype=dtype), codes(random, K, N, dtype=dtype), scales_of(random)
    out = tw.matmul(a, b, recipe="row", **scales, out_dtype="fp32", backend="emulator")
    np.testing.assert_array_equal(out, product(a, b, scales))
    exchanged = tw.matmul(b.T, a.T, recipe="row", scale_a=scales["scale_b"].T, scale_b=scales["scale_a"].T,
                          out_dtype="fp32", backend="emulator")  # fmt: skip
    np.testing.assert_array_equal(exchanged, out.T)


@pytest.mark.parametrize("dtype", [np.int8, E4M3], ids=lambda dtype: np.dtype(dtype).name)
def test_operands_that_are_not_contiguous_along_k_are_copied_for_wgmma(random, dtype):
    a, b, scales = codes(random, K, M, dtype=dtype).T, codes(random, K, N, dtype=dtype), scales_of(random)
    plan = tw.plan(a, b, recipe="row", **scales, out_dtype="fp32", backend="emulator")
    assert plan.kernel.name == "wgmma"
    assert "each call copies a (transposed) and b (transposed) first" in plan.reason
    assert "since a is not contiguous along k, as wgmma reads elements of 1 byte; b is " in plan.reason
    np.testing.assert_array_equal(plan(a, b, **scales), product(a, b, scales))
    plan = tw.plan(a.copy(), b, backend="emulator")
    assert "each call copies a and b (transposed) first" in plan.reason


@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("rows", [1, M])
def test_what_stands_for_zero_in_a(random, rows, column_major):
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((M, K), (K, N)))
    zeros, scales = random.integers(-128, 128, (rows, 1)).astype(np.int32), scales_of(random)
    out = np.zeros((M, N), np.float32, order="F" if column_major else "C")
    plan = tw.plan(a, b, recipe="row", **scales, zero_a=zeros, out=out, backend="emulator")
    plan(a, b, **scales, zero_a=zeros, out=out)
    np.testing.assert_array_equal(out, product(a.astype(np.int32) - zeros, b, scales))
    with pytest.raises(ArgumentValueError, match="called with scale_a, scale_b: pass exactly these"):
        plan(a, b, **scales, out=out)


def test_a_zero_point_makes_sums_larger():
    a, b = np.full((2, 65_793), -128, np.int8), np.full((65_793, 3), -128, np.int8)
    scales = {"scale_a": np.ones((), np.float32), "scale_b": np.ones((), np.float32)}
    zero = np.array(127, np.int32)
    out = tw.matmul(a, b, recipe="tensor", **scales, zero_a=zero, out_dtype="fp32", backend="emulator")
    assert (out == np.float32(65_793 * 255 * 128)).all()
    longer = np.full((2, 65_794), -128, np.int8)
    with pytest.raises(UnsupportedError, match="more than 65793 products of int8 may overflow int32"):
        tw.matmul(longer, longer.T, recipe="tensor", **scales, zero_a=zero, backend="emulator")


def test_sums_of_the_largest_numbers_are_exact():
    a, b = np.full((3, 131_071), -128, np.int8), np.full((131_071, 5), -128, np.int8)
    a[1], b[:, 2] = 127, 127
    out = tw.matmul(a, b, backend="emulator")
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


def test_an_empty_sum_of_whole_numbers_is_zero():
    out = np.full((3, 5), 7, np.int32)
    assert not tw.matmul(np.ones((3, 0), np.int8), np.ones((0, 5), np.int8), out=out, backend="emulator").any()


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_plan_is_called_with_scales_and_a_bias(random, batch):
    a, b, scales = codes(random, *batch, M, K), codes(random, K, N), scales_of(random)
    bias = random.integers(-3, 4, N).astype(np.float32)
    plan = tw.plan(a, b, bias=bias, activation="relu", recipe="row", **scales, out_dtype="fp32", backend="emulator")
    for _ in range(2):
        scales, bias = scales_of(random), random.integers(-3, 4, N).astype(np.float32)
        expected = np.maximum(product(a, b, scales) + bias, 0)
        np.testing.assert_array_equal(plan(a, b, bias=bias, **scales), expected)
        found = tw.matmul(a, b, bias=bias, activation="relu", recipe="row", **scales, out_dtype="fp32",
                          backend="emulator")  # fmt: skip
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(
        ArgumentValueError, match=r"made for scales named scale_a, scale_b and called with scale_a: pass"
    ):
        plan(a, b, bias=bias, scale_a=scales["scale_a"])
    with pytest.raises(ArgumentValueError, match="scale_b is not as the plan wants it: shape"):
        plan(a, b, bias=bias, scale_a=scales["scale_a"], scale_b=scales["scale_b"].T)
    with pytest.raises(ArgumentValueError, match="made for operands named bias and called with none"):
        plan(a, b, **scales)
    with pytest.raises(ArgumentValueError, match="made for scales named nothing and called with scale_a"):
        tw.plan(a, b, backend="emulator")(a, b, scale_a=scales["scale_a"])


def test_a_range_of_rows_with_scales(random):
    a, b, scales = codes(random, M, K), codes(random, K, N), scales_of(random)
    plan = tw.plan(a, b, recipe="row", **scales, out_dtype="fp32", backend="emulator", m=range(30, 40))
    out = plan(a[:33], b, scale_a=scales["scale_a"][:33], scale_b=scales["scale_b"])
    np.testing.assert_array_equal(out, product(a, b, scales)[:33])


def test_sums_that_are_kept_are_scaled(random):
    a, b, scales = codes(random, M, K), codes(random, K, N), scales_of(random)
    sums = np.zeros((M, N), np.float32)
    out = tw.matmul(a, b, recipe="row", **scales, epilogue="relu(acc) * 2", outputs={"acc": sums}, alpha=0.5,
                    out_dtype="fp32", backend="emulator")  # fmt: skip
    np.testing.assert_array_equal(sums, product(a, b, scales) / 2)
    np.testing.assert_array_equal(out, np.maximum(sums, 0) * 2)


@pytest.mark.parametrize("kind", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("dtype", [E4M3, ml_dtypes.bfloat16, np.float32], ids=lambda dtype: np.dtype(dtype).name)
def test_results_of_fp8_are_divided_by_their_scale_and_saturate(random, dtype, kind):
    a, b = codes(random, M, K, dtype=dtype), codes(random, K, N, dtype=dtype)
    scale, largest = np.array(0.25, np.float32), np.zeros(1, np.float32)
    a[0], b[:, 0] = 4, 200
    exact = a.astype(np.float64) @ b.astype(np.float64)
    plan = tw.plan(a, b, out_dtype=kind, scale_out=scale, outputs={"amax": largest}, backend="emulator")
    for power in (0.25, 2.0, 1024.0):
        scale[...] = power
        out = plan(a, b, scale_out=scale, outputs={"amax": largest})
        limit = float(ml_dtypes.finfo(out.dtype).max)
        np.testing.assert_array_equal(out, np.clip(exact / power, -limit, limit).astype(out.dtype))
        assert largest == np.abs(exact).max()
    plain = tw.matmul(a, b, out_dtype=kind, backend="emulator")
    np.testing.assert_array_equal(plain, np.clip(exact, -limit, limit).astype(out.dtype))


def test_a_result_that_is_no_number_stays_none_and_an_infinite_one_saturates():
    a, b = np.array([[np.nan, 1], [np.inf, 1]], np.float32), np.ones((2, 3), np.float32)
    out = tw.matmul(a, b, out_dtype="fp8_e5m2", scale_out=np.ones((), np.float32), backend="emulator")
    assert np.isnan(out[0].astype(np.float32)).all()
    assert (out[1] == 57344).all()


def test_a_bias_and_an_activation_go_with_a_scale_of_results(random):
    a, b, bias = codes(random, M, K), codes(random, K, N), random.integers(-3, 4, N).astype(np.float32)
    scale = np.array(16, np.float32)
    out = tw.matmul(a, b, bias=bias, activation="relu", recipe="row", **scales_of(random), out_dtype="fp8_e4m3",
                    scale_out=scale, backend="emulator")  # fmt: skip
    again = np.random.default_rng(1)
    a, b, bias = codes(again, M, K), codes(again, K, N), again.integers(-3, 4, N).astype(np.float32)
    expected = np.maximum(product(a, b, scales_of(again)) + bias, 0) / 16
    np.testing.assert_array_equal(out, np.minimum(expected, 448).astype(E4M3))


def test_a_gpu_without_conversions_to_fp8_is_said():
    a = np.ones((16, 16), ml_dtypes.bfloat16)
    with pytest.raises(UnsupportedError, match="conversions need sm_89 or later, and A100 is sm_80: take an out of bf"):
        tw.matmul(a, a, out_dtype="fp8_e4m3", backend=EmulatedBackend(A100))


@pytest.mark.parametrize("wrong", [0.0, -0.5, np.nan, np.inf])
def test_a_scale_that_is_none_is_refused_at_each_call(random, wrong):
    a, b, scales = codes(random, M, K), codes(random, K, N), scales_of(random)
    plan = tw.plan(a, b, recipe="row", **scales, backend="emulator")
    scales["scale_b"][0, 7] = wrong
    for call in (plan, lambda *arrays, **others: tw.matmul(*arrays, recipe="row", **others, backend="emulator")):
        with pytest.raises(ArgumentValueError, match=f"scale_b has {wrong} among its elements"):
            call(a, b, **scales)


def test_whole_numbers_are_not_scaled_by_a_later_call():
    a = np.ones((8, 64), np.int8)
    plan = tw.plan(a, a.T, backend="emulator")
    with pytest.raises(ArgumentValueError, match=r"alpha=3\.0 scales sums, and out is int32"):
        plan(a, a.T, alpha=3.0)
    with pytest.raises(ArgumentValueError, match=r"alpha=3\.0 scales sums, and out is int32"):
        tw.matmul(a, a.T, alpha=3.0, backend="emulator")


def test_which_tensor_cores_multiply_fp8(random):
    a, b = codes(random, M, K), codes(random, K, N)
    with pytest.raises(UnsupportedError, match="mma needs tensor cores for fp8, sm_89 or later, and A100 is sm_80"):
        tw.matmul(a, b, backend=EmulatedBackend(A100))
    backend = EmulatedBackend(standing_for("sm_89"))
    with pytest.raises(UnsupportedError, match=r"mma adds fp8 with 13 bits on sm_89, .* pass fast_accumulation=True"):
        tw.matmul(a, b, backend=backend)
    np.testing.assert_array_equal(
        tw.matmul(a, b, out_dtype="fp32", fast_accumulation=True, backend=backend),
        a.astype(np.float32) @ b.astype(np.float32),
    )
    whole = tw.matmul(a.astype(np.int8), b.astype(np.int8), backend=EmulatedBackend(A100))
    np.testing.assert_array_equal(whole, a.astype(np.int32) @ b.astype(np.int32))
