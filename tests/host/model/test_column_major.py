"""The calls of a BLAS against one that knows memory and column-major matrices alone."""

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.column_major import LAYOUTS, blas_call


def gemm(call, memory):
    """C of a column-major GEMM, from and to flat memory."""

    def matrix(name, rows, columns, leading):
        flat = memory[name]
        return np.array([[flat[column * leading + row] for column in range(columns)] for row in range(rows)])

    first = (
        matrix(call.first, call.m, call.k, call.lda)
        if call.transa == "N"
        else matrix(call.first, call.k, call.m, call.lda).T
    )
    second = (
        matrix(call.second, call.k, call.n, call.ldb)
        if call.transb == "N"
        else matrix(call.second, call.n, call.k, call.ldb).T
    )
    out = np.zeros(call.n * call.ldc)
    for column, values in enumerate((first @ second).T):
        out[column * call.ldc : column * call.ldc + call.m] = values
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_call_writes_the_row_major_product(layout):
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 10, (5, 7)), random.integers(-9, 10, (7, 3))
    stored = {"a": a if layout[0] == "n" else a.T, "b": b if layout[1] == "n" else b.T}
    memory = {name: np.ascontiguousarray(each).ravel() for name, each in stored.items()}
    out = gemm(blas_call(5, 3, 7, layout), memory)
    np.testing.assert_array_equal(out.reshape(5, 3), a @ b)


def test_what_is_no_layout_or_extent():
    with pytest.raises(ArgumentValueError, match="use nt, nn, tn, tt"):
        blas_call(1, 1, 1, "row")
    with pytest.raises(ArgumentValueError, match="k=0 must be"):
        blas_call(1, 1, 0)
