"""The ladder on the tensor cores of a warp: from wmma out of GMEM to mma.sync behind swizzled stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tilewright.dtypes import DType, bf16, fp16, parse
from tilewright.hardware import Hardware
from tilewright.kernels.ladder.kernel import LadderConstants, LadderKernel, is_row_major
from tilewright.kernels.ladder.rung import GEMM_CHAPTER, Published, Rung
from tilewright.kernels.mma import MmaKernel
from tilewright.kernels.refusal import Refusal
from tilewright.kernels.tiled import copy_bytes
from tilewright.model.tiling.levels import Block
from tilewright.problem import Problem

_LEAST_STRIDE, _MOST_STRIDE = 16, 2**31 - 1
"""The row strides, in elements, that wmma.load takes: below a fragment's 16 is undefined; the stride is an int."""


class WarpTensorCoreKernel(LadderKernel):
    """A kernel of wmma or mma.sync: A and B row-major, in 2-byte floats. A warp makes a (`warp_m`, `warp_n`) block."""

    unit = "mma"
    inputs: ClassVar[tuple[DType, ...]] = (fp16, bf16)
    warp_m: ClassVar[int]
    warp_n: ClassVar[int]

    def warp_block(self, constants: LadderConstants) -> Block:
        """The warp's block."""
        return Block(self.warp_m, self.warp_n)

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """Add the warp's block, and the layouts of A and B."""
        return {
            **super().own_constants(config, dtype),
            "warp_m": self.warp_m,
            "warp_n": self.warp_n,
            "a_k_major": self.layout[0] == "n",
            "b_k_major": self.layout[1] == "t",
        }


class WmmaGmem(WarpTensorCoreKernel):
    """Fragments come straight from GMEM."""

    name = "wmma_gmem"
    summary = "wmma fragments straight from GMEM, one warp for each 16x16 block of out"
    header = "ladder/wmma_gmem.cuh"
    tile_m, tile_n, tile_k = 32, 64, 16
    warp_m = warp_n = 16
    threads = 256

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """LadderKernel's reasons, or row strides that wmma.load does not take (PTX ISA, "wmma.load": stride)."""
        if refusal := super().refuses(problem, hardware):
            return refusal
        for operand, stride in (("a", problem.a.row_stride), ("b", problem.b.row_stride)):
            if not _LEAST_STRIDE <= stride <= _MOST_STRIDE:
                return Refusal(
                    f"{self.name} reads fragments by wmma.load, whose stride is {_LEAST_STRIDE} to {_MOST_STRIDE} "
                    f"elements, and {operand} has row stride {stride}: copy {operand}, or take a production kernel"
                )
        return None


class WmmaSmem(WarpTensorCoreKernel):
    """Tiles in SMEM, with rows that all start in one bank; `padding` elements follow each row."""

    name = "wmma_smem"
    summary = "wmma fragments from tiles in SMEM, whose rows all start in one bank"
    header = "ladder/wmma_smem.cuh"
    tile_m, tile_n, tile_k = 128, 128, 64
    warp_m, warp_n = 64, 32
    threads = 256
    padding: ClassVar[int] = 0

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """Add the padding."""
        return {**super().own_constants(config, dtype), "padding": self.padding}


class WmmaPadded(WmmaSmem):
    """The same, with rows that start in different banks."""

    name = "wmma_padded"
    summary = "wmma fragments from tiles in SMEM, whose rows are padded apart"
    header = "ladder/wmma_padded.cuh"
    padding = 8


@dataclass(frozen=True, slots=True)
class MmaWarpConfig:
    """The accumulators of `mma_warp`: fp16, which overflows beyond 65504 and keeps 11 bits, or fp32."""

    accumulator: Literal["fp16", "fp32"] = "fp16"


class MmaWarp(WarpTensorCoreKernel):
    """One warp, one instruction's block of out."""

    name = "mma_warp"
    summary = "mma.sync with ldmatrix, one warp for each 16x8 block of out; accumulation in fp16 or fp32"
    config_type = MmaWarpConfig
    header = "ladder/mma_warp.cuh"
    rules = (
        ("fp32_accumulator or fp16_accumulator", "accumulator is 'fp32' or 'fp16'"),
        ("fp32_accumulator or fp16_input", "tensor cores add products of bf16 in fp32 only: take accumulator='fp32'"),
    )
    tile_m, tile_n, tile_k = 16, 8, 16
    warp_m, warp_n = 16, 8
    threads = 32

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[MmaWarpConfig]:
        """fp16 for fp16 inputs, and fp32."""
        return tuple(MmaWarpConfig(name) for name in ("fp16", "fp32") if name in problem.a.dtype.accumulators)

    def accumulator(self, config: MmaWarpConfig) -> DType:
        """The accumulator of the Config."""
        return parse(config.accumulator, "accumulator")

    def own_constants(self, config: MmaWarpConfig, dtype: DType) -> dict[str, bool | int]:
        """Add the constants that the rules use."""
        constants = super().own_constants(config, dtype)
        del constants["accumulator"]
        return {
            **constants,
            "fp32_accumulator": config.accumulator == "fp32",
            "fp16_accumulator": config.accumulator == "fp16",
            "fp16_input": "fp16" in dtype.accumulators,
        }


class FourWarpsKernel(WarpTensorCoreKernel):
    """A kernel of 128x128 tiles, 32 of k at a time; each of its four warps makes a 64x64 block."""

    tile_m, tile_n, tile_k = 128, 128, 32
    warp_m = warp_n = 64
    threads = 128


class MmaSmem(FourWarpsKernel):
    """Tiles in SMEM, with rows that start in one bank or in two."""

    name = "mma_smem"
    summary = "mma.sync on tiles in SMEM, whose rows share banks"
    header = "ladder/mma_smem.cuh"


class MmaSwizzled(FourWarpsKernel):
    """Swizzled tiles in a ring of stages, and 2-byte elements of out stored by stmatrix."""

    name = "mma_swizzled"
    summary = "mma.sync on swizzled stages that cp.async fills; out leaves by stmatrix and whole rows"
    header = "ladder/mma_swizzled.cuh"
    needs = "sm_90"
    stages: ClassVar[int] = 4
    smem_bytes = 2 * stages * (FourWarpsKernel.tile_m + FourWarpsKernel.tile_n) * FourWarpsKernel.tile_k

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """LadderKernel's reasons, outs that stmatrix cannot pack, or rows that do not start on 16 bytes."""
        out = problem.out
        if out.dtype not in self.inputs:
            return Refusal(f"{self.name} packs out by stmatrix, which takes 2-byte elements, and out is {out.dtype}")
        if is_row_major(out, problem.n) and copy_bytes(out) < 16:
            return Refusal(f"{self.name} writes 16 bytes at a time, and rows of out do not all start on 16: pad them")
        return super().refuses(problem, hardware)

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """Add the stages."""
        return {**super().own_constants(config, dtype), "stages": self.stages}


class VoltaMma(WarpTensorCoreKernel):
    """Volta's instruction, which later GPUs run in software: to be counted, not measured.

    A is stored (k, m) and B (k, n), in fp16.
    """

    name = "volta_mma"
    shows = "sm_70"
    summary = "Volta's mma.m8n8k4 by quad pairs, on tiles permuted for 16-byte accesses"
    header = "ladder/volta_mma.cuh"
    layout = "tn"
    inputs = (fp16,)
    tile_m, tile_n, tile_k = 128, 256, 32
    warp_m = warp_n = 64
    threads = 256
    thread = Block(8, 8)  # of a quad pair, by one mma.m8n8k4


class SparseMma(FourWarpsKernel):
    """mma.sp for any A: elements that do not fit the pattern, two of four, take a second instruction.

    NaN and infinities of B give NaN under zeros of A too, as in IEEE 754: a tile of B with one is multiplied by the
    dense instruction.
    """

    name = "sparse_mma"
    summary = "sparse mma.sync on A split into two matrices of two in four; the second where it is not zero"
    header = "ladder/sparse_mma.cuh"


RUNGS = (
    Rung(
        WmmaGmem(),
        "warp tensor cores",
        "WMMA from GMEM",
        "One warp instruction multiplies 16x16 by 16x16, and fragments are loaded from GMEM each time.",
        (Published(50.0, (1024, 1024, 1024), "A100", GEMM_CHAPTER, upto=80.0),),
    ),
    Rung(
        WmmaSmem(),
        "warp tensor cores",
        "WMMA from SMEM",
        "Eight warps share tiles in SMEM, and each warp uses every fragment several times.",
    ),
    Rung(
        WmmaPadded(),
        "warp tensor cores",
        "Padded rows",
        "16 unused bytes after each row spread the rows over the banks.",
    ),
    Rung(
        MmaWarp(),
        "warp tensor cores",
        "mma.sync by hand",
        "ldmatrix loads fragments of documented layout from SMEM, and a warp computes one 16x8 block.",
    ),
    Rung(
        MmaSmem(),
        "warp tensor cores",
        "mma.sync on SMEM tiles",
        "Four warps share tiles in SMEM and compute 64x64 blocks each; ldmatrix runs into bank conflicts.",
    ),
    Rung(
        MmaSwizzled(),
        "warp tensor cores",
        "Swizzled stages",
        "Three things: chunks trade places in their rows, cp.async fills stages ahead, and out leaves in whole rows.",
    ),
    Rung(
        VoltaMma(),
        "warp tensor cores",
        "Volta's quad pairs",
        "Eight lanes multiply 8x4 by 4x8, from tiles whose chunks are permuted for stores along rows and loads across.",
        side_step=True,
        note="its instruction runs in software on GPUs after Volta: judge it by its counters, not its speed",
    ),
    Rung(
        SparseMma(),
        "warp tensor cores",
        "Two of four",
        "Any A is a sum of two matrices with two of four elements; the second is multiplied only where it is not zero.",
        side_step=True,
        data="2:4",
        note="its A is 2:4 sparse: two of each four neighbors along k are zero",
    ),
    Rung(
        MmaKernel(),
        "warp tensor cores",
        "Every shape and stride",
        "The production kernel loads fragments one step ahead and takes any layout, alignment and batch.",
    ),
)
