"""The further outputs of generated products: where they lie, and what they must hold beside out."""

import math

import numpy as np

from support.memory import View
from support.reference import check, reference, rounding
from tilewright.operand import contiguous_strides
from tilewright.problem import output_key


def output_views(names, out, gate, column_vector):
    """Packed arrays for these outputs beside an `out`, by their keys; column_vector: b has one dimension."""
    columns = 1 if column_vector else out.shape[-1]
    of_sums = (*out.shape[:-1], 2 * out.shape[-1]) if gate else out.shape
    shapes = {"acc": of_sums, "amax": (1,), "column_sums": (columns,)}
    return {output_key(name): View("fp32", shapes[name], contiguous_strides(shapes[name])) for name in names}


def check_outputs(arrays, dtype, alpha, **sums):
    """Raise an AssertionError unless the outputs agree with `out`, which is of `dtype`, and the sums with a @ b.

    sums: how they are made, see `reference`.
    """
    out = arrays["out"].astype(np.float64)
    if (acc := arrays.get(output_key("acc"))) is not None:
        expected = reference(arrays["a"], arrays["b"], out_dtype="fp32", alpha=alpha, **sums)
        check(acc, expected, "acc")
    if (amax := arrays.get(output_key("amax"))) is not None:
        _check_largest(float(amax[0]), out, dtype)
    if (sums := arrays.get(output_key("column_sums"))) is not None:
        _check_sums(sums, out.reshape(-1, len(sums)) if out.size else np.zeros((0, len(sums))), dtype)


def _check_largest(amax, out, dtype):
    largest = abs(out).max(initial=0.0)
    if math.isnan(largest):
        assert math.isnan(amax), f"amax is {amax}, and a result is NaN"
    elif math.isinf(largest):  # maybe by rounding to fp16
        assert amax >= 65504, f"amax is {amax}, and a result is infinite"
    else:
        assert abs(amax - largest) <= rounding(amax, dtype), f"amax is {amax}, and the largest result {largest}"


def _check_sums(sums, out, dtype):
    """Each of at most 36 additions of a group and of strands, and one in 32 groups, is off by half a unit."""
    finite = np.isfinite(out).all(axis=0)
    out, found = out[:, finite], sums[finite].astype(np.float64)
    magnitude = (abs(out) + rounding(abs(out), dtype)).sum(axis=0)
    bound = rounding(abs(out), dtype).sum(axis=0) * 1.01 + (36 + len(out) / 512) * 2.0**-24 * magnitude + 2.0**-126
    wrong = ~(abs(found - out.sum(axis=0)) <= bound)
    assert not wrong.any(), f"{np.count_nonzero(wrong)} of {wrong.size} sums of columns are wrong, first {found[wrong]}"
