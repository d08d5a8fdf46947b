"""Zero points of A on `wgmma`: sums of the columns of B from a launch ahead, and what the epilogue does with them."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.kernels.wgmma.config import WgmmaConfig

CHECKED = EmulatedBackend(H200._replace(sm_count=8), checks=True)
DIRECT = WgmmaConfig(64, 64, 3, tile_k=128, epilogue="direct", overlap=False)
SUMMED = "each call sums the columns of b first, since zero_a is multiplied by the sums; summing takes about 2 us"


def codes(random, *shape):
    return random.integers(-128, 128, shape).astype(np.int8)


ONE = np.ones((), np.float32)
SCALES = {"scale_a": ONE, "scale_b": ONE}


def shifted(a, b, zeros):
    """The exact product, in float64."""
    return (a.astype(np.int64) - zeros) @ b.astype(np.int64)


def multiplied(a, b, zeros, out_dtype="fp32", **options):
    return tw.matmul(
        a, b, recipe="tensor", **SCALES, zero_a=zeros, out_dtype=out_dtype, kernel="wgmma", backend=CHECKED, **options
    )


@pytest.fixture
def random():
    return np.random.default_rng(3)


@pytest.mark.parametrize("rows", [(), (1, 1), None], ids=["number", "one row", "rows"])
@pytest.mark.parametrize("extents", [(1, 1, 1), (1, 40, 15), (37, 51, 17), (70, 9, 600), (130, 64, 528)], ids=str)
def test_sums_are_exact_whatever_the_extents(random, extents, rows):
    m, n, k = extents
    a, b = codes(random, m, k), codes(random, n, k).T
    zeros = random.integers(-128, 128, (m, 1) if rows is None else rows).astype(np.int32)
    np.testing.assert_array_equal(multiplied(a, b, zeros), shifted(a, b, zeros).astype(np.float32))


@pytest.mark.parametrize(
    "of_b",
    [lambda b: b, lambda b: b.copy(order="F"), lambda b: np.repeat(b, 2, 0)[::2], lambda b: b[:, ::-1]],
    ids=["rows", "columns", "every second", "backward"],
)
def test_sums_are_of_b_wherever_it_lies(random, of_b):
    a, b = codes(random, 33, 48), of_b(codes(random, 48, 72))
    zeros = random.integers(-128, 128, (33, 1)).astype(np.int32)
    np.testing.assert_array_equal(multiplied(a, b, zeros), shifted(a, b, zeros).astype(np.float32))


@pytest.mark.parametrize("batches", [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (1, 2)), ((2, 2), (2,))], ids=str)
def test_each_batch_has_its_sums(random, batches):
    of_a, of_b = batches
    a, b = codes(random, *of_a, 20, 32), codes(random, *of_b, 24, 32).swapaxes(-1, -2)
    zeros = random.integers(-128, 128, (*of_a, 20, 1)).astype(np.int32)
    np.testing.assert_array_equal(multiplied(a, b, zeros), shifted(a, b, zeros).astype(np.float32))


def test_out_may_lie_by_columns_and_keep_its_neighbors(random):
    a, b = codes(random, 40, 64), codes(random, 48, 64).T
    zeros = random.integers(-128, 128, (40, 1)).astype(np.int32)
    memory = np.full((48, 43), np.nan, np.float32)
    multiplied(a, b, zeros, out=memory[:, :40].T)
    np.testing.assert_array_equal(memory[:, :40].T, shifted(a, b, zeros).astype(np.float32))
    assert np.isnan(memory[:, 40:]).all()


@pytest.mark.parametrize("code_a", [-128, 127])
@pytest.mark.parametrize("code_b", [-128, 127])
@pytest.mark.parametrize("zero", [-128, 127])
def test_the_longest_sums_of_extremes_fit(code_a, code_b, zero):
    a, b = np.full((2, 65_793), code_a, np.int8), np.full((3, 65_793), code_b, np.int8).T
    found = multiplied(a, b, np.array(zero, np.int32))
    assert (found == np.float32((code_a - zero) * code_b * 65_793)).all()


@pytest.mark.parametrize("gate", ["interleaved", "stacked"])
def test_sums_of_gates_and_further_outputs_are_shifted(random, gate):
    a, b = codes(random, 37, 80), codes(random, 96, 80).T
    zeros, sums = random.integers(-128, 128, (37, 1)).astype(np.int32), np.full((37, 96), np.nan, np.float32)
    found = multiplied(a, b, zeros, epilogue="x - y", gate=gate, outputs={"acc": sums})
    exact = shifted(a, b, zeros)
    x, y = (exact[:, ::2], exact[:, 1::2]) if gate == "interleaved" else (exact[:, :48], exact[:, 48:])
    np.testing.assert_array_equal(sums, exact.astype(np.float32))
    np.testing.assert_array_equal(found, x.astype(np.float32) - y.astype(np.float32))


def test_one_plan_serves_other_arrays_and_says_what_it_does(random):
    a, b = codes(random, 64, 128), codes(random, 64, 128).T
    zeros = np.zeros((64, 1), np.int32)
    plan = tw.plan(a, b, recipe="tensor", **SCALES, zero_a=zeros, out_dtype="fp32", config=DIRECT, backend=CHECKED)
    assert plan.reason == f"wgmma: asked for by config=; {SUMMED}"
    for _ in range(2):
        a, b = codes(random, 64, 128), codes(random, 64, 128).T
        zeros = random.integers(-128, 128, (64, 1)).astype(np.int32)
        found = plan(a, b, **SCALES, zero_a=zeros)
        np.testing.assert_array_equal(found, shifted(a, b, zeros).astype(np.float32))


def test_copies_come_before_the_sums(random):
    a, b = codes(random, 64, 128), codes(random, 128, 64)
    zeros = random.integers(-128, 128, (64, 1)).astype(np.int32)
    plan = tw.plan(a, b, recipe="tensor", **SCALES, zero_a=zeros, out_dtype="bf16", kernel="wgmma", backend=CHECKED)
    assert "each call copies b (transposed) first, since b is not contiguous along k" in plan.reason
    assert plan.reason.endswith(SUMMED)
    found = plan(a, b, **SCALES, zero_a=zeros)
    np.testing.assert_array_equal(found, shifted(a, b, zeros).astype(np.float32).astype(ml_dtypes.bfloat16))


def test_more_products_than_int32_holds_are_one_error():
    a, b = np.zeros((2, 65_794), np.int8), np.zeros((3, 65_794), np.int8).T
    with pytest.raises(ArgumentValueError, match="k is 65794, and sums of more than 65793 products of int8 may"):
        multiplied(a, b, np.array(1, np.int32))
