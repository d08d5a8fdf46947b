"""Why a thread's block ends at 8 x 16: one of 16 x 16 does not fit into its registers."""

import pytest

from tilewright.checking.product import Product
from tilewright.dtypes import fp32
from tilewright.hardware import H200
from tilewright.jit import source
from tilewright.jit.compile import compile
from tilewright.kernels.ladder.cuda_cores import RegisterTiles
from tilewright.model.occupancy import MOST_REGISTERS


def compiled(monkeypatch, size):
    """The rung with blocks of size x size for a thread, in a tile of 16 x 16 threads."""

    class Resized(RegisterTiles):
        tile_m = tile_n = 16 * size

    header = "ladder/thread_tile.cuh"
    text = source.HEADERS[header]
    assert "size = 8;" in text
    monkeypatch.setitem(source.HEADERS, header, text.replace("size = 8;", f"size = {size};"))
    kernel, problem = Resized(), Product(512, 512, 512, fp32, fp32, "nn").problem
    return compile(kernel.assemble(kernel.best(problem, H200), problem, H200).source)


@pytest.mark.parametrize(("size", "spills"), [(4, False), (8, False), (16, True)])
def test_a_block_of_16_by_16_spills(monkeypatch, size, spills):
    monkeypatch.setattr("tilewright.kernels.kernel._WRITTEN", {})
    kernel = compiled(monkeypatch, size)
    assert (kernel.spill_bytes > 4096) == spills
    assert (kernel.registers == MOST_REGISTERS) == spills
