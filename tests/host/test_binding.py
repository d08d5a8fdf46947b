"""From operands to the Problem: the Problem, evaluated on raw memory, must be what `numpy.matmul` computes."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.arrays import adopt
from tilewright.planner.binding import bind, result_shape
from tilewright.problem import EXCHANGED, MAX_BATCH_DIMS, OPERANDS

SETTINGS = settings(max_examples=300)


def binding_of(activation=None, multiplies=True, **arrays):
    operands = {name: adopt(array, name) for name, array in arrays.items() if array is not None}
    return bind(operands, activation=activation, multiplies=multiplies)


def problem_of(**arrays):
    return binding_of(**arrays).problem


def matrices(array, matrix, batch, rows, columns):
    """The (batch, rows, columns) view of an operand's memory that a Matrix describes."""
    shape, strides = (*batch, rows, columns), (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
    return np.lib.stride_tricks.as_strided(array, shape, [s * array.itemsize for s in strides], writeable=True)


def evaluate(binding, arrays):
    """Do what a kernel does, by the letter of the Problem: write into out's memory through the Problem's strides."""
    problem = binding.problem
    extents = {"a": (problem.m, problem.k), "b": (problem.k, problem.n)}
    views = {
        role: matrices(
            arrays[OPERANDS[EXCHANGED[OPERANDS.index(role)]] if binding.is_exchanged else role],
            matrix,
            problem.batch,
            *extents.get(role, (problem.m, problem.n)),
        )
        for role, matrix in problem.operands()
    }
    views["out"][...] = views["a"] @ views["b"] + views.get("c", 0) + views.get("bias", 0)


@st.composite
def strided(draw, shape, *, distinct=False):
    """A float32 array of small integers: dimensions in any order, steps, reversed and broadcast ones."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 2))) for _ in shape]
    full = np.arange(np.prod([e * s for e, s in zip(shape, steps, strict=True)], dtype=int)) % 7 - 3
    array = full.astype(np.float32).reshape([shape[d] * steps[d] for d in order])
    array = array.transpose(np.argsort(order))[(*(slice(None, None, step) for step in steps), ...)]
    for dim in range(len(shape)):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            array = np.flip(array, dim)
        elif kind == 1 and not distinct and shape[dim]:
            array = np.broadcast_to(np.take(array, [0], dim), shape)
    assert array.shape == tuple(shape)
    return array


@st.composite
def broadcastable(draw, shape):
    """A shape that broadcasts to `shape`."""
    kept = tuple(draw(st.sampled_from((1, extent, extent))) for extent in shape)
    return kept[draw(st.sampled_from((0, 0, *range(len(shape) + 1)))) :]


@st.composite
def products(draw):
    """Operands that `numpy.matmul` takes, with c, bias and out."""
    m, n, k = (draw(st.integers(0, 5)) for _ in range(3))
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    a_shape = (k,) if draw(st.integers(0, 5)) == 0 else (*draw(broadcastable(batch)), m, k)
    b_shape = (k,) if draw(st.integers(0, 5)) == 0 else (*draw(broadcastable(batch)), k, n)
    shape = np.matmul(np.zeros(a_shape), np.zeros(b_shape)).shape
    arrays = {
        "a": draw(strided(a_shape)),
        "b": draw(strided(b_shape)),
        "out": draw(strided(shape, distinct=True)).copy("K"),
    }
    for name in ("c", "bias"):
        if draw(st.booleans()):
            arrays[name] = draw(st.deferred(lambda: broadcastable(shape).flatmap(strided)))
    return arrays


@SETTINGS
@given(products())
def test_the_problem_is_what_numpy_computes(arrays):
    expected = arrays["a"] @ arrays["b"] + arrays.get("c", 0) + arrays.get("bias", 0)
    assert result_shape(adopt(arrays["a"], "a"), adopt(arrays["b"], "b")) == expected.shape
    binding = binding_of(**arrays)
    assert binding.problem.is_empty == (expected.size == 0)
    assert len(binding.problem.batch) <= MAX_BATCH_DIMS
    if expected.size:
        evaluate(binding, arrays)
        np.testing.assert_array_equal(arrays["out"], expected)


@SETTINGS
@given(products())
def test_extents_and_flops_are_those_of_the_product(arrays):
    problem = problem_of(**arrays)
    out = np.prod(arrays["out"].shape, dtype=int)
    assert problem.m * problem.n * problem.batch_count == out
    assert problem.flops == 2 * out * arrays["a"].shape[-1]


def f32(*shape):
    return np.zeros(shape, np.float32)


def test_a_linear_layer_is_one_product():
    problem = problem_of(a=f32(4, 6, 32), b=f32(16, 32).T, out=f32(4, 6, 16), bias=f32(16))
    assert (problem.m, problem.n, problem.k, problem.batch) == (24, 16, 32, ())
    assert problem.layout == "nt"
    assert (problem.epilogue.bias.row_stride, problem.epilogue.bias.column_stride) == (0, 1)


def test_a_bias_of_each_row_of_a_batch_is_not_folded():
    problem = problem_of(a=f32(4, 6, 32), b=f32(32, 16), out=f32(4, 6, 16), bias=f32(4, 1, 16))
    assert problem.batch == (4,)
    assert problem.epilogue.bias.batch_strides == (16,)


def test_neighboring_batch_dimensions_merge_and_extents_of_one_vanish():
    problem = problem_of(a=f32(2, 3, 1, 4, 5, 6), b=f32(2, 3, 1, 4, 6, 7), out=f32(2, 3, 1, 4, 5, 7))
    assert problem.batch == (24,)
    assert problem.a.batch_strides == (30,)


def test_five_batch_dimensions_that_do_not_merge_are_refused():
    shape = (2,) * 5
    a, b = f32(*shape, 3, 4).transpose(4, 3, 2, 1, 0, 5, 6), f32(*shape, 4, 5)
    with pytest.raises(NotImplementedError, match=r"5 batch dimensions \(2, 2, 2, 2, 2\).*contiguous or loop"):
        problem_of(a=a, b=b, out=f32(*shape, 3, 5))
    assert problem_of(a=a[0], b=b[0], out=f32(*shape, 3, 5)[0]).batch == shape[1:]


def test_a_column_major_out_is_solved_transposed():
    a, b, out = f32(5, 6), f32(6, 7), f32(7, 5).T
    binding = binding_of(a=a, b=b, out=out, bias=f32(7))
    problem = binding.problem
    assert (problem.m, problem.n, problem.k) == (7, 5, 6)
    assert binding.is_exchanged
    assert (problem.out.row_stride, problem.out.column_stride) == (5, 1)
    assert (problem.epilogue.bias.row_stride, problem.epilogue.bias.column_stride) == (1, 0)
    assert problem.transposed.out.row_stride == 1


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_layouts_are_named_by_the_row_major_reading(layout):
    a = f32(8, 16) if layout[0] == "n" else f32(16, 8).T
    b = f32(16, 24) if layout[1] == "n" else f32(24, 16).T
    assert problem_of(a=a, b=b, out=f32(8, 24)).layout == layout


def test_strides_of_extents_of_one_do_not_matter():
    plain = problem_of(a=f32(1, 16), b=f32(16, 8), out=f32(1, 8))
    odd = problem_of(a=f32(3, 16)[::3], b=f32(16, 8), out=f32(1, 8))
    assert plain == odd
    assert plain.a.vector_bytes("column") == 16


def test_what_is_scaled_by_zero_is_not_there():
    binding = binding_of(a=f32(3, 4), b=f32(4, 5), out=f32(3, 5), multiplies=False)
    assert (binding.problem.k, binding.problem.epilogue.c) == (0, None)


@pytest.mark.parametrize(
    ("offset", "row_stride", "expected"), [(0, 8, 16), (0, 6, 8), (2, 8, 8), (1, 8, 4), (0, 7, 4), (0, 0, 16)]
)
def test_vector_bytes_of_float32_rows(offset, row_stride, expected):
    memory = np.zeros(128, np.float32)
    memory = memory[-memory.ctypes.data % 16 // 4 :]
    a = np.lib.stride_tricks.as_strided(memory[offset:], (4, 6), (4 * row_stride, 4))
    problem = problem_of(a=a, b=f32(6, 5), out=f32(4, 5))
    assert problem.a.vector_bytes("column") == expected
    assert problem.a.vector_bytes("row") == 4


@SETTINGS
@given(st.data())
def test_plain_products_are_bound_as_all_others_are(data):
    shapes = {"a": (2, 3), "b": (3, 4), "out": (2, 4)}
    extents = {side: data.draw(st.integers(1, 6)) for side in (2, 3, 4)}
    arrays = {
        name: data.draw(strided(tuple(extents[side] for side in shape), distinct=name == "out"))
        for name, shape in shapes.items()
    }
    changed = data.draw(st.sampled_from(("", "", "", "shared", "dtype", "shape", "read-only", "bias")))
    if changed == "shared":
        arrays["out"] = np.zeros((8, 8), np.float32)[: extents[2], : extents[4]]
        arrays["a"] = arrays["out"].base[: extents[2], : extents[3]]
    elif changed == "dtype":
        arrays["b"] = arrays["b"].astype(np.float16)
    elif changed == "shape":
        arrays["b"] = arrays["b"][1:]
    elif changed == "read-only":
        arrays["out"].flags.writeable = False
    elif changed == "bias":
        arrays["bias"] = np.zeros(extents[4], np.float32)
    activation = data.draw(st.sampled_from((None, None, "gelu", "none", ["relu"])))

    def bound():
        try:
            return binding_of(activation, **arrays)
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    with mock.patch("tilewright.planner.binding._plain", return_value=None):
        expected = bound()
    assert bound() == expected
