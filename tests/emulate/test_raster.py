"""cuda/layout/raster.cuh and model/raster.py agree, tile by tile."""

import numpy as np
import pytest

from tilewright.emulator import Device
from tilewright.hardware import H200
from tilewright.jit.compile import compile
from tilewright.jit.source import TranslationUnit, reachable_headers
from tilewright.model.raster import blocked_tile, grouped_tile, hilbert_tile, row_major_tile

SOURCE = """
#include "layout/raster.cuh"

extern "C" __global__ void orders(int2 (*out)[4], int tiles_m, int tiles_n) {
  using namespace tilewright;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= tiles_m * tiles_n) return;
  const TileIndex tiles[] = {
      row_major_tile(index, tiles_m, tiles_n), grouped_tile(index, tiles_m, tiles_n, 1, 3),
      blocked_tile(index, tiles_m, tiles_n, 3, 4), hilbert_tile(index, tiles_m, tiles_n)};
  for (int i = 0; i < 4; ++i) out[index][i] = make_int2(tiles[i].m, tiles[i].n);
}
"""

SHAPES = [
    *((m, n) for m in range(1, 10) for n in range(1, 10)),
    *((1, 200), (200, 1), (16, 16), (17, 15), (33, 7), (5, 64), (32, 32), (31, 33)),
]


@pytest.fixture(scope="module")
def kernel_on_device():
    unit = TranslationUnit("orders", SOURCE, reachable_headers(SOURCE))
    device = Device(memory_bytes=1 << 20, checks=True)
    return device, device.load(compile(unit, H200.virtual_arch).ptx)


@pytest.mark.parametrize(("tiles_m", "tiles_n"), SHAPES)
def test_both_put_every_tile_in_the_same_place(kernel_on_device, tiles_m, tiles_n):
    device, kernel = kernel_on_device
    count = tiles_m * tiles_n
    out = device.allocate(32 * count)
    device.launch(kernel, (-(-count // 128),), (128,), [out, tiles_m, tiles_n])
    places = device.read(out, 32 * count).view(np.int32).reshape(count, 4, 2)
    device.free(out)
    for index in range(count):
        expected = (
            row_major_tile(index, tiles_m, tiles_n),
            grouped_tile(index, tiles_m, tiles_n, 3),
            blocked_tile(index, tiles_m, tiles_n, 3, 4),
            hilbert_tile(index, tiles_m, tiles_n),
        )
        assert tuple(map(tuple, places[index].tolist())) == expected
