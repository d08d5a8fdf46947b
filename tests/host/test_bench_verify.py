"""How `bench` judges results that overflow or are NaN, on arrays of NumPy in place of torch's."""

from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.bench import Shape
from tilewright.bench.epilogues import Added, ExpressionEnding
from tilewright.bench.inputs import Inputs
from tilewright.cli.products import problem_of
from tilewright.dtypes import fp16
from tilewright.expression.grammar import parse


class Tensor(np.ndarray):
    """An array with the methods of torch's tensors that judging takes."""

    def fill_(self, value):
        self.fill(value)

    def double(self):
        return self.astype(np.float64)

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)

    def element_size(self):
        return self.itemsize


TORCH = SimpleNamespace(
    int16=np.int16, int32=np.int32, isfinite=np.isfinite, cuda=SimpleNamespace(synchronize=lambda device: None)
)


def inputs_of(a, b, rows=None):
    """Inputs with one set of fp16 numbers, of which these rows are compared; all by default."""
    m, n, k = len(a), b.shape[1], len(b)
    inputs = object.__new__(Inputs)
    inputs.torch, inputs.device, inputs.scales, inputs._by_accumulator = TORCH, 0, {}, {}
    inputs.shape = Shape(m, n, k, "fp16", "nn")
    inputs.elements = inputs.shape.elements
    inputs.problem = problem_of(inputs.shape, bias=False, activation=None)
    inputs.rows = np.arange(m) if rows is None else np.array(rows)
    inputs.sets = ((a.view(Tensor), b.view(Tensor), np.zeros((m, n), np.float16).view(Tensor)),)
    return inputs


def verdict(inputs, results, **how):
    """The Verdict of work that leaves these results; it leaves out elements that are None."""

    def work():
        for index, result in np.ndenumerate(np.array(results, object)):
            if result is not None:
                inputs.sets[0][2][index] = result

    return inputs.verify(work, **how)


@pytest.fixture
def overflowing():
    """Sums of 102400, -102400 and 2560 in two columns."""
    a = np.array([[40], [-40], [1]], np.float16).repeat(64, axis=1)
    return inputs_of(a, np.full((64, 2), 40, np.float16))


RIGHT = [[np.inf] * 2, [-np.inf] * 2, [2560] * 2]


def test_results_that_must_overflow_are_right(overflowing):
    found = verdict(overflowing, RIGHT)
    assert found.verified
    assert found.relative_error == 0


@pytest.mark.parametrize(
    ("index", "wrong"), [((0, 1), 65504), ((1, 0), np.inf), ((0, 0), np.nan), ((2, 1), np.inf), ((1, 1), None)]
)
def test_others_in_their_place_are_wrong(overflowing, index, wrong):
    results = np.array(RIGHT, object)
    results[index] = wrong
    assert not verdict(overflowing, results).verified


def test_what_is_known_of_no_element_must_still_be_written(overflowing):
    results = np.array([[np.inf, np.nan], [np.nan, 3], [2560, 2560]], object)
    assert verdict(overflowing, results, accumulator=fp16).verified  # 102400 may be anything in fp16
    results[0, 1] = None
    assert not verdict(overflowing, results, accumulator=fp16).verified


def test_rows_that_are_not_compared_are_finite_where_those_compared_are():
    inputs = inputs_of(np.ones((5, 4), np.float16), np.ones((4, 2), np.float16), rows=[0, 4])
    results = np.full((5, 2), 4.0)
    assert verdict(inputs, results).verified
    for wrong in (np.nan, np.inf):
        results[2, 1] = wrong
        found = verdict(inputs, results)
        assert not found.verified
        assert np.isnan(found.relative_error)


@pytest.mark.parametrize(
    ("output", "right", "wrong"),
    [("acc", RIGHT, [[np.inf] * 2, [65504] * 2, [2560] * 2]), ("amax", [np.nan], [np.log(102400)])],
)
def test_an_expression_and_its_outputs_may_be_nan_or_overflow(overflowing, output, right, wrong):
    expression, out = parse("log(acc)", [])._replace(outputs=(output,)), overflowing.sets[0][2]
    results = np.array([[np.log(102400)] * 2, [np.nan] * 2, [np.log(2560)] * 2])
    for written, expected in ((right, True), (wrong, False)):
        added = Added({}, {output: np.array(written).view(Tensor)}, out)
        ending = ExpressionEnding(overflowing, expression, [added])
        assert verdict(overflowing, results, ending=ending).verified is expected
        assert not verdict(overflowing, np.nan_to_num(results), ending=ending).verified
