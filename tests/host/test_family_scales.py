"""Plans for another number of rows where a and b have scales: what of these has rows, and what lies apart by them."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.families import Loaded, afresh, all_compiled, facts, outcome
from tilewright import api
from tilewright.hardware import H200


@pytest.mark.parametrize("rows", [(48, 40, 3, 7), (3, 40, 48), (7, 9, 3)])
@pytest.mark.parametrize("recipe", ["row", "1x128_128x128", "1x128_1x128"])
def test_scales_of_b_have_no_rows_of_the_result(recipe, rows):
    a, b = np.zeros((48, 300), ml_dtypes.float8_e4m3fn), np.zeros((64, 300), ml_dtypes.float8_e4m3fn).T
    of_a, of_b = (np.ones(shape, np.float32) for shape in {
        "row": ((48, 1), (1, 64)), "1x128_128x128": ((48, 3), (3, 1)), "1x128_1x128": ((48, 3), (3, 64))
    }[recipe])  # fmt: skip
    backend = Loaded(H200, host_in_place=True)
    with all_compiled():
        for number in rows:

            def plan(number=number):
                options = {"scale_a": of_a[:number], "scale_b": of_b, "recipe": recipe}
                return facts(tw.plan(a[:number], b, **options, backend=backend), backend)

            assert outcome(plan) == afresh(plan)
        known = api._families._known
        assert len(known) == 1


@pytest.mark.parametrize("b_is_k_major", [True, False])
@pytest.mark.parametrize("recipe", ["1x128_128x128", "1x128_1x128"])
def test_scales_of_blocks_may_lie_apart_by_the_number_of_rows(recipe, b_is_k_major):
    """As `quantize` makes them, and in any other order; b is copied where it is not k-major, and scales are not."""
    a = np.zeros((64, 304), ml_dtypes.float8_e4m3fn)
    b = np.zeros((64, 304), a.dtype).T if b_is_k_major else np.zeros((304, 64), a.dtype)
    of_b = np.ones((3, 1 if recipe.endswith("128x128") else 64), np.float32)
    wide = np.ones((7, 64), np.float32)

    def quantized(rows):
        return np.ones((3, -(-rows // 4) * 4), np.float32)[:, :rows].T

    ways = [(48, quantized), (40, quantized), (40, lambda rows: np.ones((rows, 3), np.float32)), (33, quantized)]
    ways += [(40, lambda rows: wide[:3, :rows].T), (17, lambda rows: wide[::2, ::2].T[:rows, :3]), (2, quantized)]
    backend = Loaded(H200, host_in_place=True)
    with all_compiled():
        for rows, made in ways:
            of_a = made(rows)

            def plan(rows=rows, of_a=of_a):
                options = {"scale_a": of_a, "scale_b": of_b, "recipe": recipe}
                return facts(tw.plan(a[:rows], b, **options, backend=backend), backend)

            assert outcome(plan) == afresh(plan)
        assert len(api._families._known) == 1


def test_memory_between_scales_that_lie_apart_is_not_out():
    backend = Loaded(H200, host_in_place=True)
    a, b, of_b = np.zeros((48, 304), np.int8), np.zeros((64, 304), np.int8).T, np.ones((3, 1), np.float32)
    a, b = a.view(ml_dtypes.float8_e4m3fn), b.view(ml_dtypes.float8_e4m3fn)
    memory = np.ones((3, 48 * 64), np.float32)
    out = memory[1].reshape(48, 64)

    def plan(of_a, out):
        rows = len(of_a)
        return tw.plan(a[:rows], b, recipe="1x128_128x128", scale_a=of_a, scale_b=of_b, out=out[:rows], backend=backend)

    with all_compiled():
        plan(np.ones((3, 48), np.float32).T, out)
        with pytest.raises(ValueError, match="out shares memory with scale_a"):
            plan(memory[:, :40].T, out)
        assert len(api._families._known) == 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.float8_e4m3fn], ids=lambda dtype: np.dtype(dtype).name)
def test_numbers_that_all_rows_share_leave_a_family(dtype, shape):
    a, b = np.zeros((48, 304), dtype), np.zeros((64, 304), dtype).T
    one = np.ones(shape, np.float32)
    added: dict[str, Any] = {"scale_out": one, "out_dtype": "fp8_e5m2"}
    if dtype is np.int8:
        added = {"zero_a": np.ones(shape, np.int32)}
    backend = Loaded(H200, host_in_place=True)
    with all_compiled():
        for number in (48, 40, 3, 7):

            def plan(number=number):
                options = {"scale_a": one, "scale_b": one, **added}
                return facts(tw.plan(a[:number], b, recipe="tensor", **options, backend=backend), backend)

            assert outcome(plan) == afresh(plan)
        assert len(api._families._known) == 1
