"""What a Problem says about itself."""

import pytest

from tilewright.dtypes import bf16, fp8_e4m3, fp32
from tilewright.expression.grammar import parse
from tilewright.problem import OPERANDS, Epilogue, Matrix, Problem

A, B, OUT = Matrix(bf16, 40, 1), Matrix(bf16, 1, 40), Matrix(bf16, 30, 1)
"""Of a 20x30x40 product."""

TWO_BYTES = 2 * (20 * 40 + 40 * 30 + 20 * 30)


def batched(matrix, *strides):
    return Matrix(matrix.dtype, matrix.row_stride, matrix.column_stride, strides)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem(20, 30, 40, A, B, OUT), TWO_BYTES),
        (Problem(20, 30, 40, A, B, Matrix(fp32, 30, 1)), TWO_BYTES + 2 * 20 * 30),
        (Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(c=Matrix(fp32, 30, 1))), TWO_BYTES + 4 * 20 * 30),
        (Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(bias=Matrix(fp32, 0, 1))), TWO_BYTES + 4 * 30),
        (
            Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(c=Matrix(bf16, 1, 0), bias=Matrix(bf16, 0, 0))),
            TWO_BYTES + 2 * 20 + 2,
        ),
        (Problem(20, 30, 0, A, B, OUT), 2 * 20 * 30),
        (
            Problem(20, 30, 40, batched(A, 800, 5600), batched(B, 0, 1200), batched(OUT, 600, 4200), batch=(7, 5)),
            2 * (35 * 20 * 40 + 5 * 40 * 30 + 35 * 20 * 30),
        ),
    ],
)
def test_each_operand_crosses_memory_once_in_its_own_dtype(problem, expected):
    assert problem.minimum_bytes == expected


@pytest.mark.parametrize(
    ("matrix", "batch", "expected"),
    [
        (Matrix(bf16, 80, 2), (), 20 * 40 * 4 - 2),  # every second element
        (Matrix(bf16, -80, -2), (), 20 * 40 * 4 - 2),
        (Matrix(bf16, 640, 16), (), 20 * 40 * 32 - 30),  # one of each sector
        (Matrix(bf16, 4000, 100), (), 20 * 40 * 32),  # sectors apart
        (Matrix(bf16, 1000, 1), (), 20 * 80),  # rows apart
        (Matrix(fp8_e4m3, 120, 3), (), 20 * 40 * 3 - 2),
        (Matrix(bf16, 320, 8, (1,)), (8,), 8 * 20 * 40 * 2),  # batches innermost: others lie between
        (Matrix(bf16, 2, 1), (), 2 * (19 * 2 + 39 + 1)),  # rows that share elements
    ],
)
def test_what_lies_between_elements_in_their_sectors_crosses_memory_too(matrix, batch, expected):
    assert Problem(20, 30, 40, matrix, B, OUT, batch=batch).crossing_bytes("a", matrix) == expected


def test_operands_come_in_one_order_and_those_that_are_absent_do_not():
    full = Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(c=OUT, bias=Matrix(fp32, 0, 1)))
    assert tuple(name for name, _ in full.operands()) == OPERANDS
    assert [name for name, _ in Problem(20, 30, 40, A, B, OUT).operands()] == ["a", "b", "out"]


def test_the_transposed_problem_exchanges_a_and_b_and_walks_the_addends_across():
    bias = Matrix(fp32, 0, 1)
    turned = Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(bias=bias, activation="relu")).transposed
    assert (turned.m, turned.n, turned.k) == (30, 20, 40)
    assert (turned.a, turned.b, turned.out) == (B.transposed, A.transposed, OUT.transposed)
    assert turned.epilogue == Epilogue(bias=Matrix(fp32, 1, 0), activation="relu")


def test_operands_are_replaced_wherever_they_stand():
    other, bias = Matrix(fp32, 64, 1), Matrix(fp32, 1, 0)
    changed = Problem(20, 30, 40, A, B, OUT, epilogue=Epilogue(activation="silu")).with_operands(
        {"out": other, "bias": bias}
    )
    assert (changed.a, changed.out, changed.epilogue) == (A, other, Epilogue(bias=bias, activation="silu"))


def test_what_an_epilogue_takes_to_finish_a_sum():
    bias, scale = Matrix(bf16, 0, 1), Matrix(fp32, 1, 0)
    assert Epilogue().instructions == 0
    assert Epilogue(activation="relu").instructions == 0
    assert (Epilogue(activation="gelu").instructions, Epilogue(bias=bias, activation="gelu").instructions) == (8, 12)
    fused = Epilogue(expression=parse("gelu(acc + bias) * 2", ["bias"]), operands=(bias,))
    assert (fused.reads, fused.instructions) == (1, 13)
    gated = Epilogue(expression=parse("silu(x) * y", [], "stacked"))
    assert gated.instructions == 4.5  # for each of two sums
    scaled = fused.expression._replace(operands=("scale_a", "bias"), recipe="row")
    assert Epilogue(expression=scaled, operands=(scale, bias)).reads == 1
