"""Whichever way a product is solved, itself or transposed, each array is in its own role."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.wgmma.config import WgmmaConfig

M, N, K = 40, 72, 136


def matrix(rows, columns, column_major, numbers):
    values = numbers.integers(-4, 5, (columns, rows) if column_major else (rows, columns)).astype(ml_dtypes.bfloat16)
    return values.T if column_major else values


@pytest.mark.parametrize("swap_ab", [False, True])
@pytest.mark.parametrize("out_by_columns", [False, True])
@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("addends", [(), ("c", "bias")], ids=["plain", "addends"])
def test_a_transposed_product_gets_its_operands(swap_ab, out_by_columns, layout, addends):
    """Twice, by one Plan: roles hold for the arrays of later calls too."""
    config = WgmmaConfig(64, 32, 3, epilogue="direct", swap_ab=swap_ab)
    numbers, backend, plan = np.random.default_rng(0), EmulatedBackend(checks=True), None
    for _ in range(2):
        a, b = matrix(M, K, layout[0] == "t", numbers), matrix(K, N, layout[1] == "t", numbers)
        out = matrix(M, N, out_by_columns, numbers)
        extra = {"c": matrix(M, N, False, numbers), "bias": matrix(1, N, False, numbers)[0]}
        given = {name: extra[name] for name in addends}
        if plan is None:
            plan = tw.plan(
                a, b, given.get("c"), bias=given.get("bias"), out=out, kernel="wgmma", config=config, backend=backend
            )
        plan(a, b, out=out, **given)
        expected = sum((array.astype(np.float64) for array in given.values()), a.astype(float) @ b.astype(float))
        np.testing.assert_array_equal(out, expected.astype(np.float32).astype(ml_dtypes.bfloat16))
    assert not backend.device.reports
