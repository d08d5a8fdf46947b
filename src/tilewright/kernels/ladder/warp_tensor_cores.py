"""The ladder on the tensor cores of a warp: from wmma out of GMEM to mma.sync behind swizzled stages."""

from tilewright.dtypes import bf16, fp16
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.ladder.rung import Rung


class WarpTensorCoreKernel(LadderKernel):
    """A kernel of wmma or mma.sync; A and B row-major, in 2-byte floats."""

    execution_unit = "mma"
    inputs = (bf16, fp16)


class WmmaGmem(WarpTensorCoreKernel):
    """Fragments come straight from GMEM."""

    name = "wmma_gmem"
    summary = "wmma fragments straight from GMEM, one warp for each 16x16 block of out"
    header = "ladder/wmma_gmem.cuh"
    tile_m, tile_n, tile_k = 32, 64, 16
    threads = 256


RUNGS = (
    Rung(
        WmmaGmem(),
        "warp tensor cores",
        "WMMA from GMEM",
        "One instruction of a warp multiplies 16x16 by 16x16, and fragments are loaded from GMEM each time.",
    ),
)
