"""Kernel `copy`: out = activation(beta * c + bias), for products whose sum is empty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.hardware import Hardware
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, column_sums_refused, narrow_out_refused, oversized
from tilewright.kernels.tiled import tile_count
from tilewright.model.prediction import Power, Prediction
from tilewright.problem import Problem
from tilewright.rounding import ceil_div


@dataclass(frozen=True, slots=True)
class CopyConfig:
    """The Config of `copy`: a CTA of 8 warps makes one (`tile_m`, `tile_n`) tile of out."""

    tile_m: int = 16
    tile_n: int = 128


_LAUNCH_SECONDS, _STREAMED = 1.5e-6, 0.7
"""A launch in a graph, and the share of the data sheet's bandwidth: 2 to 200 MB in 2.0 to 56 us on an H200."""

_WIDE, _NARROW = CopyConfig(), CopyConfig(64, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConstants(Constants):
    """The Constants of `copy`; `unit_strides`: along a row, neighbors of every operand are neighbors in memory."""

    unit_strides: bool


class CopyFeatures(NamedTuple):
    """The compiled-in features of a Problem: whether all strides along rows are 1, and the epilogue."""

    unit_strides: bool
    epilogue: EpilogueConstants


class CopyKernel(Kernel):
    """The kernel of products without a sum: k is 0, or alpha is."""

    name = "copy"
    unit = "cuda_cores"
    summary = "out = activation(beta * c + bias), where k or alpha is 0; results of floats, every shape and stride"
    config_type = CopyConfig
    header = "kernels/copy.cuh"
    rules = (
        ("tile_m >= 8 and tile_m % 8 == 0", "8 warps share the rows of a tile: make tile_m a multiple of 8"),
        ("tile_n >= 64 and tile_n % 64 == 0", "a lane takes 2 of 64 columns: make tile_n a multiple of 64"),
        ("tile_m * tile_n <= 16384", "a thread keeps up to 64 elements in registers: take a smaller tile"),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `copy` does not take the problem: a sum that is not empty, or a GPU before sm_80."""
        if problem.k:
            return Refusal(f"copy takes products without a sum, and k is {problem.k}")
        if problem.out.dtype.kind != "float":
            return Refusal(f"copy makes floating-point numbers, and out is {problem.out.dtype}")
        if problem.columns != problem.n:
            return Refusal("copy has no sums, of which a gate could make one column of two: leave gate out")
        if hardware.capability < 80:
            return Refusal(f"copy needs the conversions to bf16 of sm_80 or later, and {hardware.its_arch}")
        return narrow_out_refused(problem, hardware) or oversized(problem) or column_sums_refused(problem, self.name)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[CopyConfig]:
        """Tiles of long rows and square ones; the square ones first if rows are short."""
        return (_WIDE, _NARROW) if problem.n > _NARROW.tile_n else (_NARROW, _WIDE)

    def features(self, problem: Problem) -> CopyFeatures:
        """Whether all strides along rows are 1, and the epilogue."""
        accessed = (problem.out, *(matrix for _, matrix in problem.epilogue.read()))
        unit_strides = all(matrix.column_stride == 1 for matrix in accessed)
        return CopyFeatures(unit_strides, EpilogueConstants.of(problem))

    def derive(self, config: CopyConfig, features: CopyFeatures) -> CopyConstants:
        """The Constants of a Config for problems with these features."""
        return CopyConstants(
            tile_m=config.tile_m,
            tile_n=config.tile_n,
            tile_k=1,
            threads=256,
            smem_bytes=0,
            epilogue=features.epilogue,
            unit_strides=features.unit_strides,
        )

    def tile_count(self, constants: Constants, problem: Problem) -> int:
        """Tiles that cover out, batches included."""
        return tile_count(constants, problem)

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out; it waits for earlier grids itself where the GPU knows of that."""
        tiles, dependent = tile_count(constants, problem), hardware.launches_overlap
        return LaunchShape(tiles, constants.threads, 1, constants.smem_bytes, dependent)

    def predict(self, config: CopyConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time in which its bytes cross GMEM, which no power state changes."""
        tiles = tile_count(config, problem)
        seconds = _LAUNCH_SECONDS + problem.minimum_bytes / (_STREAMED * hardware.memory_bandwidth)
        return Prediction(tiles, ceil_div(tiles, hardware.sm_count), 1.0, seconds, problem.flops)

    def entry(self, config: CopyConfig, problem: Problem) -> str:
        """The entry point's name, which says nothing of operands that are not read."""
        return f"{self.name}_{problem.out.dtype}_{config.tile_m}_{config.tile_n}"
