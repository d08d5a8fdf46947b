"""The ladder on the tensor cores of a warp: from wmma out of GMEM to mma.sync behind swizzled stages."""

from typing import Any, ClassVar

from tilewright.dtypes import bf16, fp16
from tilewright.kernels.family import Constants
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.ladder.rung import Rung
from tilewright.problem import Problem


class WarpTensorCoreKernel(LadderKernel):
    """A kernel of wmma or mma.sync: A and B row-major, in 2-byte floats. A warp makes a (`warp_m`, `warp_n`) block."""

    execution_unit = "mma"
    inputs = (fp16, bf16)
    warp_m: ClassVar[int]
    warp_n: ClassVar[int]

    def constants(self, config: Any, problem: Problem) -> Constants:
        """With the warp's block."""
        return {**super().constants(config, problem), "warp_m": self.warp_m, "warp_n": self.warp_n}


class WmmaGmem(WarpTensorCoreKernel):
    """Fragments come straight from GMEM."""

    name = "wmma_gmem"
    summary = "wmma fragments straight from GMEM, one warp for each 16x16 block of out"
    header = "ladder/wmma_gmem.cuh"
    tile_m, tile_n, tile_k = 32, 64, 16
    warp_m = warp_n = 16
    threads = 256


class WmmaSmem(WarpTensorCoreKernel):
    """Tiles in SMEM, with rows that all start in one bank; `padding` elements follow each row."""

    name = "wmma_smem"
    summary = "wmma fragments from tiles in SMEM, whose rows all start in one bank"
    header = "ladder/wmma_smem.cuh"
    tile_m, tile_n, tile_k = 128, 128, 64
    warp_m, warp_n = 64, 32
    threads = 256
    padding: ClassVar[int] = 0

    def constants(self, config: Any, problem: Problem) -> Constants:
        """With the padding."""
        return {**super().constants(config, problem), "padding": self.padding}


class WmmaPadded(WmmaSmem):
    """The same, with rows that start in different banks."""

    name = "wmma_padded"
    summary = "wmma fragments from tiles in SMEM, whose rows are padded apart"
    header = "ladder/wmma_padded.cuh"
    padding = 8


RUNGS = (
    Rung(
        WmmaGmem(),
        "warp tensor cores",
        "WMMA from GMEM",
        "One instruction of a warp multiplies 16x16 by 16x16, and fragments are loaded from GMEM each time.",
    ),
    Rung(
        WmmaSmem(),
        "warp tensor cores",
        "WMMA from SMEM",
        "Eight warps share tiles in SMEM, and each multiplies a fragment several times.",
    ),
    Rung(
        WmmaPadded(),
        "warp tensor cores",
        "Padded rows",
        "16 unused bytes behind each row spread the rows over the banks.",
    ),
)
