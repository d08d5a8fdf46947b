"""cuda/layout/swizzle.cuh, cuda/ladder/volta_mma.cuh and the model put every element in the same place."""

import numpy as np
import pytest

from tilewright.emulator import Device
from tilewright.hardware import H200
from tilewright.jit.compile import compile
from tilewright.jit.source import TranslationUnit, reachable_headers
from tilewright.model.memory.layouts import volta
from tilewright.model.memory.swizzle import SWIZZLES

SOURCE = """
#include "layout/swizzle.cuh"
#include "ladder/volta_mma.cuh"

extern "C" __global__ void offsets(unsigned (*out)[4]) {
  using namespace tilewright;
  const unsigned row = blockIdx.x, column = threadIdx.x;
  unsigned* mine = out[row * blockDim.x + column];
  mine[0] = SwizzledRows<64>::offset(row, column);
  mine[1] = column < 32 ? SwizzledRows<32>::offset(row, column) : 0;
  mine[2] = column < 16 ? SwizzledRows<16>::offset(row, column) : 0;
  mine[3] = row < 4 ? PermutedRows<64>::offset(row, column) : 0;
}
"""
ROWS, COLUMNS = 64, 64


@pytest.fixture(scope="module")
def offsets():
    unit = TranslationUnit("offsets", SOURCE, reachable_headers(SOURCE))
    device = Device()
    out = device.allocate(16 * ROWS * COLUMNS)
    device.launch(device.load(compile(unit, H200.virtual_arch).ptx), ROWS, COLUMNS, [out])
    return device.read(out, 16 * ROWS * COLUMNS).view(np.uint32).reshape(ROWS, COLUMNS, 4).astype(np.int64)


@pytest.mark.parametrize(("index", "span"), [(0, 128), (1, 64), (2, 32)])
def test_swizzled_rows(offsets, index, span):
    row, column = np.ogrid[:ROWS, : span // 2]
    assert (offsets[:, : span // 2, index] == SWIZZLES[span](row * span + column * 2)).all()


def test_rows_permuted_for_volta(offsets):
    row, column = np.ogrid[:4, :COLUMNS]
    assert (offsets[:4, :, 3] == volta().place(row, column // 8) + column % 8 * 2).all()
