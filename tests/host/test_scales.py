"""Scales of fp8 and int8: what is refused, where they lie over the sums, and what numbers they make of codes."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.doubles import RecordingBackend
from tilewright.arrays import adopt
from tilewright.dtypes import fp32
from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError
from tilewright.expression.grammar import parse
from tilewright.expression.tree import OUT_SCALE, SCALES, ZERO
from tilewright.planner.binding import bind
from tilewright.planner.scaling import SCALED, check_values
from tilewright.problem import RECIPES, Epilogue, Matrix
from tilewright.reference import compare, dequantized

M, N, K = 5, 6, 300
SHAPES = {
    "tensor": ((), ()),
    "row": ((M, 1), (1, N)),
    "1x128_128x128": ((M, 3), (3, 1)),
    "1x128_1x128": ((M, 3), (3, N)),
}


def codes(*shape, dtype=ml_dtypes.float8_e4m3fn):
    return np.ones(shape, dtype)


def scaled_call(recipe="row", dtype=ml_dtypes.float8_e4m3fn, **others):
    """Arrays and arguments of a product with scales, of which others replace some."""
    shapes = SHAPES.get(recipe, SHAPES["tensor"])
    scales = {name: np.ones(shape, np.float32) for name, shape in zip(SCALES, shapes, strict=True)}
    return (codes(M, K, dtype=dtype), codes(K, N, dtype=dtype)), {"recipe": recipe, **scales, **others}


WRONG = {
    "no recipe": ({"recipe": None}, ArgumentValueError, "scale_a was given without recipe="),
    "unknown": ({"recipe": "rows"}, ArgumentValueError, "recipe='rows' is unknown: use None or one of tensor, row"),
    "missing": ({"scale_b": None}, ArgumentValueError, "of fp8 or int8, needs scale_b, which is missing: pass"),
    "dtype": ({"scale_a": np.ones((M, 1), np.float16)}, ArgumentTypeError, "scale_a is fp16, and scales are fp32"),
    "shape": ({"scale_a": np.ones(M, np.float32)}, ArgumentValueError, r"scale_a has shape \(5,\).* takes \(5, 1\)"),
    "exchanged": ({"scale_b": np.ones((N, 1), np.float32)}, ArgumentValueError, r"\(6, 1\).* takes \(1, 6\) for b"),
    "one for all": ({"scale_a": np.ones((1, 1), np.float32)}, ArgumentValueError, r"\(1, 1\).* takes \(5, 1\) for a"),
    "batch": ({"scale_a": np.ones((2, M, 1), np.float32)}, ArgumentValueError, "batch dimensions do not broadcast"),
    "several": ({"recipe": "tensor"}, ArgumentValueError, r"scale_a has shape \(5, 1\), and recipe='tensor'"),
    "c": ({"c": np.ones((M, N), np.float32)}, ArgumentValueError, "c was given beside recipe=.*: write it into"),
    "out": (
        {"out_dtype": "fp32", "dtype": np.int8, "out": np.ones((M, N), np.int32)},
        ArgumentTypeError,
        "out is int32",
    ),
    "zero of floats": (
        {"zero_a": np.ones((1, 1), np.int32)},
        ArgumentTypeError,
        "zero_a is for int8, and a is",
    ),
    "zero dtype": ({"zero_a": np.ones((), np.int8), "dtype": np.int8}, ArgumentTypeError, "zero_a is int8, .* int32"),
    "zero shape": (
        {"zero_a": np.ones((1, N), np.int32), "dtype": np.int8},
        ArgumentValueError,
        r"zero_a has shape \(1, 6\), .* one for each row: pass an array",
    ),
    "scaled out": (
        {"scale_out": np.ones((), np.float32), "out_dtype": "bf16"},
        ArgumentTypeError,
        "scale_out divides results that are stored as fp8, and out is bf16: pass out_dtype='fp8_e4m3'",
    ),
    "out scale dtype": (
        {"scale_out": np.ones((), np.float16), "out_dtype": "fp8_e5m2"},
        ArgumentTypeError,
        "scale_out is fp16, and scales are fp32: convert it",
    ),
    "out scale shape": (
        {"scale_out": np.ones((M, 1), np.float32), "out_dtype": "fp8_e5m2"},
        ArgumentValueError,
        r"scale_out has shape \(5, 1\), and all results have one scale: pass an array of shape \(\)",
    ),
    "c beside an out scale": (
        {
            "recipe": None,
            "scale_a": None,
            "scale_b": None,
            "scale_out": np.ones((), np.float32),
            "out_dtype": "fp8_e4m3",
            "c": np.ones((M, N), np.float32),
        },
        ArgumentValueError,
        "c was given beside scale_out=.*: write it into",
    ),
    "narrow integers": (
        {"dtype": np.int8, "out_dtype": "fp8_e4m3"},
        ArgumentTypeError,
        "out is fp8_e4m3, and a product of int8 by int8 with scales is not stored so: take bf16, fp16 or fp32",
    ),
    "fast": ({"fast_accumulation": 1}, ArgumentTypeError, "fast_accumulation=1 is not a bool"),
    "fast integers": ({"fast_accumulation": True, "dtype": np.int8}, ArgumentTypeError, "is for sums of fp8.*leave"),
    "name": (
        {"epilogue": "acc * scale_a", "operands": {"scale_a": np.ones(N, np.float32)}},
        ArgumentValueError,
        "operands has the name 'scale_a', which is an argument of its own: pass recipe=",
    ),
    "beside": (
        {"epilogue": "relu(acc)", "bias": np.ones(N, np.float32)},
        ArgumentValueError,
        "bias was given beside epilogue=",
    ),
}


@pytest.mark.parametrize("call", [tw.matmul, tw.plan])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_scales_are_explained_before_anything_runs(name, call):
    given, exception, message = WRONG[name]
    others = {} | given
    dtype = others.pop("dtype", ml_dtypes.float8_e4m3fn)
    arrays, keywords = scaled_call(dtype=dtype)
    if others.get("out") is not None:
        del others["out_dtype"]
    backend = RecordingBackend()
    with pytest.raises(exception, match=message):
        call(*arrays, *([others.pop("c")] if "c" in others else []), **keywords | others, backend=backend)
    assert not backend.prepared
    assert not backend.launched


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_for_some_types(recipe):
    allowed = {dtype.name for dtype, recipes in SCALED.items() if recipe in recipes}
    for dtype in (ml_dtypes.bfloat16, np.float16, np.float32, np.int8, ml_dtypes.float8_e5m2):
        operand = adopt(codes(1, dtype=dtype), "a").dtype
        arrays, keywords = scaled_call(recipe, dtype)
        with pytest.raises(TilewrightError) as caught:
            tw.plan(*arrays, **keywords, batch_invariant=True, kernel="simt", backend=RecordingBackend())
        of_recipe = f"recipe={recipe!r} is not for {operand}, which a is" in str(caught.value)
        assert of_recipe == (operand.name not in allowed)


def test_sums_that_blocks_scale_leave_the_tensor_cores():
    arrays, keywords = scaled_call("1x128_1x128")
    with pytest.raises(ArgumentValueError, match=r"fast_accumulation=True .* recipe='1x128_1x128' .*: leave it out"):
        tw.plan(*arrays, **keywords, fast_accumulation=True, backend=RecordingBackend())


def test_a_vector_has_no_rows_to_scale():
    with pytest.raises(ArgumentValueError, match=r"a has shape \(300,\), and recipe='row' .* use recipe='tensor'"):
        tw.plan(codes(K), codes(K, N), **scaled_call()[1], backend=RecordingBackend())


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_values_that_are_no_scales_are_seen_in_host_memory(wrong):
    scale = np.ones((M, 2), np.float32)[:, :1]
    check_values({"scale_a": scale})
    scale[3] = wrong
    with pytest.raises(ArgumentValueError, match=f"scale_a has {wrong} among its elements, and a scale is a positive"):
        check_values({"scale_a": scale})


def test_what_divides_results_has_a_finite_reciprocal():
    a, b = np.zeros((M, 64), np.float16), np.zeros((64, N), np.float16)
    a[1:] = b[:, 1:] = 2.0**-12
    out = tw.matmul(a, b, out_dtype="fp8_e4m3", scale_out=np.array(2.0**-126, np.float32), backend="emulator")
    np.testing.assert_array_equal(out[:, 0], 0)
    np.testing.assert_array_equal(out[1:, 1:], 448)
    for small in (2.0**-127, 2.0**-149):
        check_values({"scale_a": np.array(small, np.float32)})
        with pytest.raises(ArgumentValueError, match=r"scale_out is .*reciprocal, which must be finite: take 2\^-126"):
            tw.matmul(a, b, out_dtype="fp8_e4m3", scale_out=np.array(small, np.float32), backend="emulator")


@pytest.mark.parametrize("wrong", [-129, 128])
def test_zero_points_are_codes(wrong):
    zeros = np.array([[-128], [127]], np.int32)
    check_values({"zero_a": zeros})
    zeros[1] = wrong
    with pytest.raises(ArgumentValueError, match=f"zero_a has {wrong} among its elements, .* from -128 to 127"):
        check_values({"zero_a": zeros})


def bound(recipe, a, b, out, scale_a, scale_b, gate=None):
    """The Binding of a product with scales."""
    text = "acc" if gate is None else "x * y"
    expression = parse(text, (), gate)._replace(operands=SCALES, recipe=recipe)
    arrays = {"a": a, "b": b, "out": out, "scale_a": scale_a, "scale_b": scale_b}
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    return bind(operands, activation=None, expression=expression)


def seen(problem, name, array):
    """An operand's elements, as a Problem reads them."""
    matrix = dict(problem.operands())[name]
    shape = (*problem.batch, *problem.extents(name))
    strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
    return np.lib.stride_tricks.as_strided(array, shape, [stride * 4 for stride in strides])


@pytest.mark.parametrize("gate", [None, "interleaved", "stacked"])
@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("recipe", ["tensor", "row"])
def test_scales_lie_over_the_sums(recipe, column_major, gate):
    rows = np.arange(1.0, 2 * M + 1, dtype=np.float32)[::2].reshape(M, 1)
    columns = np.arange(1.0, N + 1, dtype=np.float32).reshape(1, N)
    if recipe == "tensor":
        rows, columns = rows[2], columns[0, 3]
        columns = np.array(columns)
    out = np.zeros((M, N if gate is None else N // 2), np.float32)
    out = np.asfortranarray(out) if column_major else out
    binding = bound(recipe, codes(M, K), codes(K, N), out, rows, columns, gate)
    assert binding.is_exchanged == (column_major and gate is None)
    found = [seen(binding.problem, name, array) for name, array in zip(SCALES, (rows, columns), strict=True)]
    if binding.is_exchanged:
        found = [each.T for each in found]
    np.testing.assert_array_equal(found[0], np.broadcast_to(rows, (M, N)))
    np.testing.assert_array_equal(found[1], np.broadcast_to(columns, (M, N)))


def test_scales_of_batches_keep_them_apart_and_others_let_them_become_rows():
    a, b, out = codes(3, M, K), codes(K, N), np.zeros((3, M, N), np.float32)
    of_a, of_b = np.ones((3, M, 1), np.float32), np.ones((3, 1, N), np.float32)
    assert bound("row", a, b, out, of_a, of_b[0]).problem.batch == ()
    problem = bound("row", a, b, out, of_a, of_b).problem
    assert problem.batch == (3,)
    assert seen(problem, "scale_b", of_b).shape == (3, M, N)


@pytest.mark.parametrize("recipe", ["1x128_128x128", "1x128_1x128"])
def test_scales_of_blocks_keep_their_shapes_and_the_orientation(recipe):
    shapes = SHAPES[recipe]
    out = np.zeros((M, N), np.float32, order="F")
    binding = bound(recipe, codes(M, K), codes(K, N), out, *(np.ones(shape, np.float32) for shape in shapes))
    assert not binding.is_exchanged
    assert tuple(map(binding.problem.extents, SCALES)) == shapes


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_reference_scales_every_code(recipe):
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((M, K), (K, N)))
    scales = {
        name: 2.0 ** random.integers(-2, 3, shape).astype(np.float32)
        for name, shape in zip(SCALES, SHAPES[recipe], strict=True)
    }
    expression = parse("acc", ())._replace(operands=SCALES, recipe=recipe)
    epilogue = Epilogue(expression=expression, operands=(Matrix(fp32, 0, 0),) * 2)
    found = dequantized(a, b, epilogue, scales)
    for each, (name, codes_of) in zip(found, zip(SCALES, (a, b), strict=True), strict=True):
        block = RECIPES[recipe][SCALES.index(name)]
        scale = np.atleast_2d(scales[name])
        for row, column in np.ndindex(codes_of.shape):
            at = row // (block.rows or 10**6), column // (block.columns or 10**6)
            assert each[row, column] == float(codes_of[row, column]) * scale[at]
    out = (found[0] @ found[1]).astype(np.float32)
    assert compare(out, a, b, epilogue, scales).verified
    out[M // 2, 1] *= 1.001
    assert not compare(out, a, b, epilogue, scales).verified


def test_the_reference_knows_zero_points():
    a, b = np.full((M, K), 3, np.int8), np.ones((K, N), np.int8)
    addends = {name: np.ones((), np.float32) for name in SCALES} | {"zero_a": np.arange(M, dtype=np.int32)[:, None]}
    expression = parse("acc", ())._replace(operands=(*SCALES, ZERO), recipe="tensor")
    epilogue = Epilogue(expression=expression, operands=(Matrix(fp32, 0, 0),) * 3)
    out = np.broadcast_to((3.0 - np.arange(M)[:, None]) * K, (M, N)).astype(np.float32)
    assert compare(out, a, b, epilogue, addends).verified
    assert not compare(out + 1, a, b, epilogue, addends).verified


@pytest.mark.parametrize("scaled", [False, True])
def test_the_reference_knows_results_of_fp8(scaled):
    random = np.random.default_rng(0)
    a, b = random.standard_normal((M, K)), random.standard_normal((K, N))
    a[0], b[:, 0] = 5, 5
    scale = np.array(3.0 if scaled else 1.0, np.float32)
    expression = parse("acc", ())._replace(operands=(OUT_SCALE,) if scaled else ())
    epilogue = Epilogue(expression=expression, operands=(Matrix(fp32, 0, 0),) * scaled)
    addends = {OUT_SCALE: scale} if scaled else {}
    out = np.clip(a @ b / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert out[0, 0] == 448
    assert compare(out, a, b, epilogue, addends).verified
    out[2, 3] = np.nextafter(out[2, 3], out[0, 0])
    out[2, 3] = np.nextafter(out[2, 3], out[0, 0])
    assert not compare(out, a, b, epilogue, addends).verified


def test_sums_of_int8_are_exact():
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((M, 4000), (4000, N)))
    out = a.astype(np.int64) @ b.astype(np.int64)
    assert compare(out.astype(np.int32), a, b).verified
    out[2, 3] += 1
    assert not compare(out.astype(np.int32), a, b).verified


def test_a_range_takes_the_scales_that_it_was_planned_with():
    a, b = codes(4, 64, dtype=np.int8), codes(64, 64, dtype=np.int8)
    misaligned = np.ones((1, 65), np.float32)[:, 1:]
    column, one = np.ones((4, 1), np.float32), np.ones((1, 1), np.float32)
    plan = tw.plan(a, b, m=range(1, 5), recipe="row", scale_a=column, scale_b=misaligned, backend="emulator")
    np.testing.assert_array_equal(plan(a, b, scale_a=column, scale_b=misaligned), np.full((4, 64), 64))
    plan = tw.plan(a[:1], b, m=range(1, 3), recipe="tensor", scale_a=one, scale_b=one, backend="emulator")
    np.testing.assert_array_equal(plan(a[:2], b, scale_a=one, scale_b=one), np.full((2, 64), 64))


@pytest.mark.parametrize("flag", [1, 1.0, None])
def test_fast_accumulation_is_a_bool_in_each_call(flag):
    a, b = codes(4, 64), codes(64, 8)
    tw.matmul(a, b, fast_accumulation=True, backend="emulator")
    with pytest.raises(ArgumentTypeError, match=r"fast_accumulation=.* is not a bool"):
        tw.matmul(a, b, fast_accumulation=flag, backend="emulator")
