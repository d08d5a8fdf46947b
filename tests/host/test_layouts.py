"""The letters of layouts: how operands lie that are timed, and what the planner does with strided ones."""

import numpy as np
import pytest

from tilewright.bench import Shape, suites
from tilewright.cli.products import problem_of, stored
from tilewright.hardware import H200
from tilewright.measure.layouts import LAYOUTS, place_of
from tilewright.planner.choose import choose

VIEWS = {"n": lambda memory: memory, "t": lambda memory: memory.T, "s": lambda memory: memory[::2, ::2]}


@pytest.mark.parametrize("letter", VIEWS)
def test_a_letter_is_a_view_of_packed_memory(letter):
    extents, strides = place_of(letter, 3, 5)
    view = VIEWS[letter](np.zeros(extents, np.int8))
    assert (view.shape, view.strides) == ((3, 5), strides)


def test_batches_follow_each_other():
    assert stored((7, 3, 5), "bf16", "n").strides == (15, 5, 1)
    assert stored((7, 3, 5), "bf16", "t").strides == (15, 1, 3)
    assert stored((7, 3, 5), "bf16", "s").strides == (60, 20, 2)


def test_a_suite_may_have_any_layout_of_these_letters():
    tables = [{"m": 1, "n": 2, "k": 3, "layout": layout} for layout in LAYOUTS]
    assert [shape.layout for shape in suites.parse({"shapes": tables}, "all").shapes] == list(LAYOUTS)
    assert set(LAYOUTS) >= {a + b for a in "nt" for b in "nt"}
    assert all(set(layout) <= VIEWS.keys() for layout in LAYOUTS)


@pytest.mark.parametrize("shape", suites.load("strided").shapes, ids=str)
def test_strided_products_pose_strides_that_each_call_copies_or_walks(shape):
    problem = problem_of(shape, bias=False, activation=None)
    for letter, matrix in zip(shape.layout, (problem.a, problem.b), strict=True):
        assert (min(matrix.row_stride, matrix.column_stride) > 1) == (letter == "s")
    copied = choose(problem, H200, measured=False).copied
    assert set(copied.offsets) <= {name for name, letter in zip("ab", shape.layout, strict=True) if letter == "s"}


def test_the_planner_copies_strided_operands_of_large_products():
    problem = problem_of(Shape(4096, 4096, 4096, layout="ss"), bias=False, activation=None)
    assert set(choose(problem, H200, measured=False).copied.offsets) == {"a", "b"}
