"""Kernel `mma`: mma.sync tensor cores with a cp.async pipeline; bf16 and fp16, every shape, stride and alignment."""

from dataclasses import dataclass

from tilewright.dtypes import DType, bf16, fp16
from tilewright.hardware import Hardware
from tilewright.kernels.refusal import Refusal, oversized
from tilewright.kernels.tiled import TiledConstants, TiledFeatures, TiledKernel, copy_bytes
from tilewright.model.prediction import Power, Prediction
from tilewright.problem import Problem


@dataclass(frozen=True, slots=True)
class MmaConfig:
    """The Config of `mma`.

    A CTA of `warps_m` x `warps_n` warps makes one (`tile_m`, `tile_n`) tile of out, `tile_k` at a time, through a ring
    of `stages` in shared memory; CTAs walk out in bands of `group_m` tile rows.
    """

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 32
    stages: int = 4
    warps_m: int = 2
    warps_n: int = 2
    group_m: int = 8

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return 32 * self.warps_m * self.warps_n

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a CTA: all stages of A's and B's tiles, of 2-byte elements."""
        return 2 * self.stages * (self.tile_m + self.tile_n) * self.tile_k


_GATHER_SECONDS = {2: 0.9e-6, 4: 0.9e-6, 8: 0.37e-6}
"""The time in which an SM gathers 64 rows of A and of B along 32 of k, by the bytes of a copy, measured on an H200."""

_VECTOR_COPIES = (MmaConfig(), MmaConfig(tile_n=256, warps_n=4, stages=3), MmaConfig(tile_m=64, tile_n=64))
# Narrow copies and loads by element need more registers and instructions: twice the warps for the same tile.
_NARROW_COPIES = (MmaConfig(warps_n=4), MmaConfig(tile_m=64, tile_n=64))


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaConstants(TiledConstants):
    """The TiledConstants of `mma`, with the ring, the warps' blocks and the width of asynchronous copies."""

    Input: DType
    stages: int
    warps_m: int
    warps_n: int
    warp_m: int
    warp_n: int
    a_copy_bytes: int
    b_copy_bytes: int


class MmaKernel(TiledKernel):
    """The fallback kernel for every product of 2-byte floats, with any strides and alignment."""

    name = "mma"
    unit = "mma"
    summary = "mma.sync tensor cores behind a cp.async pipeline; bf16 and fp16, every shape, stride and alignment"
    config_type = MmaConfig
    header = "kernels/mma.cuh"
    rules = (
        ("tile_k == 32 or tile_k == 64", "k steps of 16 come in pairs, and rows of 64 or 128 bytes are swizzled"),
        ("stages >= 3", "elements that cross registers are stored behind one barrier and read behind the next"),
        ("warps_m >= 1 and warps_n >= 1 and threads <= 1024", "a CTA has 1 to 32 warps"),
        (
            "warp_m >= 16 and warp_m % 16 == 0 and warp_m * warps_m == tile_m",
            "a warp takes whole blocks of 16 rows: make tile_m a multiple of 16 * warps_m",
        ),
        (
            "warp_n >= 16 and warp_n % 16 == 0 and warp_n * warps_n == tile_n",
            "a warp takes whole blocks of 16 columns: make tile_n a multiple of 16 * warps_n",
        ),
        ("warp_m * warp_n <= 4096", "a thread keeps at most 128 accumulators in registers: take more warps"),
        (
            "a_k_major or tile_m == 16 or tile_m == 32 or tile_m % 64 == 0",
            "the swizzle of A's rows along m wants tile_m 16, 32 or a multiple of 64",
        ),
        (
            "b_k_major or tile_n == 16 or tile_n == 32 or tile_n % 64 == 0",
            "the swizzle of B's rows along n wants tile_n 16, 32 or a multiple of 64",
        ),
        ("threads % a_threads_per_row == 0", "all threads together copy whole rows of A's tile"),
        ("threads % b_threads_per_row == 0", "all threads together copy whole rows of B's tile"),
        (
            "tile_m * 16 % (threads * a_copy_elements) == 0",
            "every thread has the same part in what is copied of A in one k step: take fewer warps or a larger tile_m",
        ),
        (
            "tile_n * 16 % (threads * b_copy_elements) == 0",
            "every thread has the same part in what is copied of B in one k step: take fewer warps or a larger tile_n",
        ),
        ("group_m >= 1 and group_m <= 64", "tiles are walked in bands of 1 to 64 rows"),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `mma` does not take the problem: its dtypes, or a GPU before sm_80."""
        a, b = problem.a.dtype, problem.b.dtype
        if a != b or a not in (bf16, fp16):
            return Refusal(f"mma multiplies bf16 by bf16 or fp16 by fp16, and a is {a}, b is {b}")
        if hardware.capability < 80:
            return Refusal(
                f"mma needs cp.async and bf16 tensor cores, sm_80 or later, and {hardware.name} is {hardware.arch}"
            )
        return oversized(problem)

    def offered(self, problem: Problem) -> tuple[MmaConfig, ...]:
        """A Config for each tile size that suits the problem's alignment."""
        narrow = min(copy_bytes(problem.a), copy_bytes(problem.b)) < 8
        return _NARROW_COPIES if narrow else _VECTOR_COPIES

    def predict(self, config: MmaConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time that the model gives a Config, or what gathering elements of narrow copies takes at least."""
        predicted = super().predict(config, problem, hardware, power)
        narrowest = min(copy_bytes(problem.a), copy_bytes(problem.b))
        if narrowest == 16:
            return predicted
        per_sm = max(1.0, predicted.tile_count / hardware.sm_count) * (config.tile_m + config.tile_n) / 128
        gathering = _GATHER_SECONDS[narrowest] * problem.k / 32 * per_sm
        return predicted._replace(seconds=max(predicted.seconds, 2.2e-6 + gathering))

    def copy_elements(self, nbytes: int) -> int:
        """The elements of 16 bytes; loads of single elements are gathered into these."""
        return 8 if nbytes == 2 else nbytes // 2

    def derive(self, config: MmaConfig, features: TiledFeatures) -> MmaConstants:
        """The Constants of a Config for problems with these features."""
        return MmaConstants(
            **self.walked(config, features),
            Input=features.Input,
            warp_m=config.tile_m // max(config.warps_m, 1),
            warp_n=config.tile_n // max(config.warps_n, 1),
            a_copy_bytes=features.a_copy_bytes,
            b_copy_bytes=features.b_copy_bytes,
        )
