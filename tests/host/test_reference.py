"""The comparison that the commands make: it accepts fp32 sums and rejects what rounding cannot explain."""

from math import erf, sqrt

import ml_dtypes
import numpy as np
import pytest

from tilewright.dtypes import fp8_e4m3, fp32
from tilewright.expression.grammar import parse
from tilewright.expression.tree import OUT_SCALE, SCALES
from tilewright.problem import Epilogue, Matrix
from tilewright.reference import FULL_REFERENCE_FLOPS, SAMPLED_LINES, compare

DTYPES = [np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)]
FP32 = DTYPES[-1]

ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + erf(x / sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def operands(m, n, k, dtype):
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape, np.float32).astype(dtype) for shape in ((m, k), (k, n), (n,)))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_sum_in_fp32_is_verified_and_one_wrong_element_is_not(dtype, activation):
    a, b, bias = operands(19, 23, 300, dtype)
    total = a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32)
    out = np.vectorize(ACTIVATIONS[activation], otypes=[np.float64])(total.astype(np.float64)).astype(dtype)
    found = compare(out, a, b, Epilogue(bias=Matrix(fp32, 0, 1), activation=activation), {"bias": bias})
    assert found.verified
    assert 0 < found.relative_error <= found.error_bound
    assert found.elements == out.size

    out[7, 11] = out[7, 11] + dtype.type(1)
    assert not compare(out, a, b, Epilogue(bias=Matrix(fp32, 0, 1), activation=activation), {"bias": bias}).verified
    out[7, 11] = np.nan
    assert not compare(out, a, b, Epilogue(bias=Matrix(fp32, 0, 1), activation=activation), {"bias": bias}).verified


def test_the_reference_scales_and_adds_what_the_epilogue_has():
    a, b, bias = operands(19, 23, 300, FP32)
    c = operands(19, 23, 1, FP32)[0] * np.ones(23, np.float32)
    epilogue = Epilogue(c=Matrix(fp32, 23, 1), bias=Matrix(fp32, 0, 1), activation="relu")
    addends = {"c": c, "bias": bias}
    out = np.maximum(np.float32(0.5) * (a @ b) - np.float32(2) * c + bias, 0)
    assert compare(out, a, b, epilogue, addends, alpha=0.5, beta=-2.0).verified
    assert not compare(out, a, b, epilogue, addends, alpha=0.5, beta=2.0).verified
    assert not compare(out, a, b, epilogue, addends, beta=-2.0).verified
    assert not compare(out, a, b, Epilogue(bias=Matrix(fp32, 0, 1)), addends, alpha=0.5).verified


def test_an_exact_sum_of_scaled_int8_may_be_zero_where_float64_is_not():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-127, 128, (64, 64)).astype(np.int8) for _ in range(2))
    of_rows, of_columns = (rng.uniform(0.1, 9, shape).astype(np.float32) for shape in ((64, 1), (1, 64)))
    scales = dict(zip(SCALES, (of_rows, of_columns), strict=True))
    a[:, 1], b[1] = -a[:, 0], b[0]
    a[:, 2:] = 0
    expression = parse("acc", [])._replace(operands=SCALES, recipe="row")
    matrix = Matrix(fp32, 1, 1)
    epilogue = Epilogue(expression=expression, operands=(matrix, matrix))
    assert compare(np.zeros((64, 64), np.float32), a, b, epilogue, scales).verified
    off = np.full((64, 64), np.float32(1e-9))
    assert compare(off, a, b, epilogue, scales).verified is False


def test_a_sum_that_leaves_out_one_product_is_rejected():
    a, b, _ = operands(64, 64, 4096, FP32)
    assert not compare(a[:, :-1] @ b[:-1], a, b).verified


def test_an_accumulator_of_half_the_precision_is_rejected():
    a, b, _ = operands(32, 32, 2048, FP32)
    out = np.zeros((32, 32), np.float16)
    for step in range(2048):
        out += np.outer(a[:, step], b[step]).astype(np.float16)
    assert not compare(out.astype(np.float32), a, b).verified


def sum_in_fp16(a, b, step):
    """a @ b, rounded to fp16 after each `step` products: as tensor cores do, or, with 1, as PTX allows them to."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for start in range(0, a.shape[1], step):
        parts = a[:, start : start + step].astype(np.float64) @ b[start : start + step].astype(np.float64)
        with np.errstate(over="ignore"):
            total = (total + parts).astype(np.float16)
    return total


@pytest.mark.parametrize("k", [16, 300, 4096])
@pytest.mark.parametrize("step", [1, 16])
def test_a_sum_in_fp16_is_verified_as_one(step, k):
    a, b, _ = operands(32, 24, k, np.dtype(np.float16))
    out = sum_in_fp16(a, b, step)
    found = compare(out, a, b, accumulator="fp16")
    assert found.verified
    assert 0 < found.relative_error <= found.error_bound
    assert found.elements == out.size
    assert k == 16 or not compare(out, a, b).verified

    out[7, 11] += np.float16(8 * np.sqrt(k))  # eight times what elements usually are
    assert not compare(out, a, b, accumulator="fp16").verified


def test_elements_whose_fp16_accumulator_may_overflow_are_not_compared():
    a, b = np.full((3, 64), 40, np.float16), np.full((64, 2), 40, np.float16)
    a[0] = 20  # 64 * 20 * 40 = 51200; row 1 goes up to 102400, and row 2 to 76800 and back to 51200
    a[2, 48:] = -40
    out = np.array([[51200, 51200], [np.inf, np.inf], [np.inf, np.nan]], np.float16)
    found = compare(out, a, b, accumulator="fp16")
    assert found.verified
    assert (found.elements, found.special, found.uncertain) == (2, 0, 4)
    out[0, 0] = np.inf
    assert not compare(out, a, b, accumulator="fp16").verified


def test_a_large_product_is_sampled_and_its_last_row_and_column_are_seen():
    m, n, k = 2000, 1500, 400
    assert 2 * m * n * k > FULL_REFERENCE_FLOPS
    a, b, _ = operands(m, n, k, FP32)
    out = a @ b
    found = compare(out, a, b)
    assert found.verified
    assert found.elements == SAMPLED_LINES * (m + n) - SAMPLED_LINES**2
    for index in ((m - 1, 700), (1000, n - 1), (0, 0)):
        wrong = out.copy()
        wrong[index] += 100
        assert not compare(wrong, a, b).verified


def test_of_a_large_batch_each_product_is_sampled():
    extent = round((FULL_REFERENCE_FLOPS / 4) ** (1 / 3)) + 1  # two such products, not one, are too many
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2, extent, extent), np.float32) for _ in range(2))
    out = a @ b
    found = compare(out, a, b)
    assert found.verified
    assert found.elements == 2 * SAMPLED_LINES * (2 * extent - SAMPLED_LINES)
    out[1, -1, 3] += 1
    assert not compare(out, a, b).verified


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 5), (5, 0, 5), (3, 4, 0)])
def test_empty_extents(m, n, k):
    a, b, _ = operands(m, n, k, FP32)
    assert compare(np.zeros((m, n), np.float32), a, b).verified


def of_expression(text, values, dtype):
    """The epilogue of an expression, and what it makes of the values as `dtype` holds them."""
    epilogue = Epilogue(expression=parse(text, []))
    with np.errstate(all="ignore"):
        results = np.asarray(eval(text, {"log": np.log, "sqrt": np.sqrt, "abs": np.abs}, {"acc": values}))
        return epilogue, results.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("text", ["log(acc)", "acc * 1e38", "acc * 5000", "acc / 0", "log(-abs(acc))"])
def test_what_must_be_infinite_or_nan_is_compared(dtype, text):
    a, b, _ = operands(24, 16, 64, FP32)
    epilogue, out = of_expression(text, a @ b, dtype)
    found = compare(out, a, b, epilogue)
    special = int(np.sum(~np.isfinite(out.astype(np.float64))))
    assert found.verified is True
    assert found.special <= special <= found.special + found.uncertain
    assert found.elements + found.uncertain == out.size
    assert found.uncertain <= 6
    assert np.isfinite([found.relative_error, found.error_bound]).all()
    if special:
        out[tuple(np.argwhere(~np.isfinite(out.astype(np.float64)))[0])] = 1
        assert compare(out, a, b, epilogue).verified is False


def test_a_plain_sum_beyond_the_type_of_the_result_must_be_infinite():
    a, b = np.full((2, 64), 40, np.float16), np.full((64, 3), 40, np.float16)
    a[1] = -1
    out = np.array([[np.inf] * 3, [-2560] * 3], np.float16)  # the first are 102400
    found = compare(out, a, b)
    assert (found.verified, found.elements, found.special) == (True, 6, 3)
    for wrong in (65504, -np.inf, np.nan):
        out[0, 1] = wrong
        assert compare(out, a, b).verified is False


OPEN = (None, 0, 2)
"""What is found of two elements of which nothing is known: `verified`, and how many are special and uncertain."""


@pytest.mark.parametrize(
    ("terms", "alpha", "expected", "found"),
    [
        ([3e38, 3e38, -3e38, -3e38], 1.0, [np.nan, np.inf], OPEN),  # by the order of its terms; also 0
        ([3e38, 3e38, -3.2e38], 1.0, [np.inf, 2.8e38], OPEN),
        ([3e38, 3e38, -1e38], 1.0, [np.inf, np.inf], (True, 2, 0)),
        ([-3e38, -3e38], 1e-10, [-np.inf, -np.inf], (True, 2, 0)),
        ([3e38, 1e36], 0.5, [1.505e38, 1.505e38], (True, 0, 0)),
        ([np.nan, np.inf], 0.0, [0, 0], (True, 0, 0)),
        ([np.inf, -np.inf, 1], 1.0, [np.nan, np.nan], (True, 2, 0)),
        ([np.inf, 1, -2], 1.0, [np.inf, np.inf], (True, 2, 0)),
        ([np.inf, -3e38, -3e38], 1.0, [np.nan, np.inf], OPEN),  # NaN if finite terms come first
    ],
)
def test_sums_whose_terms_overflow_are_known_where_no_order_matters(terms, alpha, expected, found):
    a, b = np.array([terms], np.float32), np.ones((len(terms), 2), np.float32)
    out = np.array([expected], np.float32)
    compared = compare(out, a, b, alpha=alpha)
    assert (compared.verified, compared.special, compared.uncertain) == found
    assert np.isfinite([compared.relative_error, compared.error_bound]).all()
    out[0, 1] = 1
    assert compare(out, a, b, alpha=alpha).verified is (None if found == OPEN else False)


@pytest.mark.parametrize(
    ("c", "bias", "expected", "found"),
    [
        (3e38, -3e38, np.inf, OPEN),  # 3e38 if bias is added before c
        (3e38, 1e38, np.inf, (True, 2, 0)),
        (np.inf, 1, np.inf, (True, 2, 0)),
        (np.inf, -np.inf, np.nan, (True, 2, 0)),
        (-np.inf, 3e38, -np.inf, OPEN),  # NaN if c comes last
    ],
)
def test_addends_that_overflow_are_known_where_no_order_matters(c, bias, expected, found):
    a, b, out = np.array([[3e38]], np.float32), np.ones((1, 2), np.float32), np.full((1, 2), expected, np.float32)
    epilogue = Epilogue(c=Matrix(fp32, 2, 1), bias=Matrix(fp32, 0, 1))
    addends = {"c": np.full((1, 2), c, np.float32), "bias": np.full(2, bias, np.float32)}
    compared = compare(out, a, b, epilogue, addends)
    assert (compared.verified, compared.special, compared.uncertain) == found
    out[0, 1] = 1
    assert compare(out, a, b, epilogue, addends).verified is (None if found == OPEN else False)


def test_c_that_is_not_read_may_be_nan():
    a, b, c = np.ones((1, 3), np.float32), np.ones((3, 2), np.float32), np.full((1, 2), np.nan, np.float32)
    epilogue = Epilogue(c=Matrix(fp32, 2, 1))
    assert compare(np.full((1, 2), 3, np.float32), a, b, epilogue, {"c": c}, beta=0.0).verified is True


def test_infinite_results_of_fp8_are_cut_and_nan_stays():
    a, b = np.array([[1.0], [-1.0]], np.float32), np.array([[1.0, 2.0]], np.float32)
    scale = {OUT_SCALE: np.array(0.5, np.float32)}
    for text, expected in (("acc / 0", [[448, 448], [-448, -448]]), ("log(acc)", [[0, 1.375], [np.nan, np.nan]])):
        expression = parse(text, [])._replace(operands=(OUT_SCALE,))
        epilogue = Epilogue(expression=expression, operands=(Matrix(fp32, 0, 0),))
        out = np.array(expected).astype(fp8_e4m3.numpy_dtype)
        assert compare(out, a, b, epilogue, scale).verified is True
        out[1, 0] = 2
        assert compare(out, a, b, epilogue, scale).verified is False


def test_a_comparison_of_nothing_verifies_nothing():
    a, b, _ = operands(8, 8, 4, FP32)
    epilogue, out = of_expression("sqrt(acc * 0)", a @ b, np.float32)
    found = compare(out, a, b, epilogue)
    assert (found.verified, found.elements, found.uncertain) == (None, 0, 64)
