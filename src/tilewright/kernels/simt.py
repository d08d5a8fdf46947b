"""Kernel `simt`: fp32 on the CUDA cores, warp-tiled; every shape, stride and alignment."""

from dataclasses import dataclass

from tilewright.dtypes import DType, fp32
from tilewright.hardware import Hardware
from tilewright.kernels.refusal import Refusal, narrow_out_refused, oversized
from tilewright.kernels.tiled import TiledConstants, TiledFeatures, TiledKernel
from tilewright.problem import Problem


@dataclass(frozen=True, slots=True)
class SimtConfig:
    """The Config of `simt`.

    A CTA makes one (`tile_m`, `tile_n`) tile of out, `tile_k` at a time through two buffers in shared memory; a warp
    makes (`warp_m`, `warp_n`) of it, and a thread (`thread_m`, `thread_n`); CTAs walk out in bands of `group_m` tile
    rows.
    """

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 16
    warp_m: int = 64
    warp_n: int = 32
    thread_m: int = 8
    thread_n: int = 8
    group_m: int = 8

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return 32 * (self.tile_m // max(self.warp_m, 1)) * (self.tile_n // max(self.warp_n, 1))

    def smem_bytes(self, nbytes: int) -> int:
        """Shared memory of a CTA: two buffers of A's and B's tiles, each row padded by 4 elements of so many bytes."""
        return 2 * (self.tile_m + 4 + self.tile_n + 4) * self.tile_k * nbytes


_CANDIDATES = (
    SimtConfig(),
    SimtConfig(tile_m=256, tile_k=8, warp_n=64, thread_m=16),
    SimtConfig(tile_m=64, tile_n=64, warp_m=32, thread_n=4),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimtConstants(TiledConstants):
    """The TiledConstants of `simt`, with the blocks of warps and threads, and the lanes of a warp along m and n."""

    warp_m: int
    warp_n: int
    thread_m: int
    thread_n: int
    lanes_m: int
    lanes_n: int


class SimtKernel(TiledKernel):
    """The kernel of fp32 products: no tensor cores, no rounding to a narrower type."""

    name = "simt"
    unit = "cuda_cores"
    summary = "CUDA cores, warp-tiled with register blocks and double buffering; fp32, every shape and stride"
    config_type = SimtConfig
    header = "kernels/simt.cuh"
    rules = (
        (
            "tile_k == 8 or tile_k == 16 or tile_k == 32",
            "four neighbors along k are loaded at once: tile_k is 8, 16 or 32",
        ),
        (
            "tile_m >= 32 and tile_m % 32 == 0",
            "the padding of A's rows spreads them over the 32 banks: make tile_m a multiple of 32",
        ),
        (
            "tile_n >= 32 and tile_n % 32 == 0",
            "the padding of B's rows spreads them over the 32 banks: make tile_n a multiple of 32",
        ),
        (
            "thread_m >= 4 and thread_n >= 4 and thread_m % 4 == 0 and thread_n % 4 == 0",
            "a thread reads its rows and columns four at a time: make thread_m and thread_n multiples of 4",
        ),
        ("thread_m * thread_n <= 128", "a thread keeps at most 128 accumulators in registers"),
        (
            "lanes_m * thread_m == warp_m and lanes_n * thread_n == warp_n and lanes_m * lanes_n == 32",
            "32 lanes share a warp's block: warp_m / thread_m times warp_n / thread_n is 32",
        ),
        (
            "lanes_m % 4 == 0 or not sums_columns",
            "four rows of lanes have the 16 rows whose columns are summed: make warp_m / thread_m a multiple of 4",
        ),
        (
            "tile_m % warp_m == 0 and tile_n % warp_n == 0 and threads <= 1024",
            "1 to 32 whole warps share the CTA's tile",
        ),
        ("threads % a_threads_per_row == 0", "all threads together load whole rows of A's tile"),
        ("threads % b_threads_per_row == 0", "all threads together load whole rows of B's tile"),
        (
            "tile_m * tile_k % (threads * a_copy_elements) == 0",
            "every thread has the same part in loading A's tile: take larger warp blocks or a larger tile_m or tile_k",
        ),
        (
            "tile_n * tile_k % (threads * b_copy_elements) == 0",
            "every thread has the same part in loading B's tile: take larger warp blocks or a larger tile_n or tile_k",
        ),
        ("group_m >= 1 and group_m <= 64", "tiles are walked in bands of 1 to 64 rows"),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `simt` does not take the problem: dtypes other than fp32, or a GPU before sm_80."""
        a, b = problem.a.dtype, problem.b.dtype
        if a != fp32 or b != fp32:
            return Refusal(f"simt multiplies fp32 by fp32, and a is {a}, b is {b}")
        if hardware.capability < 80:
            return Refusal(f"simt needs the conversions to bf16 of sm_80 or later, and {hardware.its_arch}")
        return narrow_out_refused(problem, hardware) or oversized(problem)

    def offered(self, problem: Problem) -> tuple[SimtConfig, ...]:
        """A Config for each tile size."""
        return _CANDIDATES

    def copy_elements(self, nbytes: int, dtype: DType) -> int:
        """Four if 16 bytes are aligned, else one."""
        return 4 if nbytes == 16 else 1

    def derive(self, config: SimtConfig, features: TiledFeatures) -> SimtConstants:
        """The Constants of a Config for problems with these features."""
        return SimtConstants(
            **self.walked(config, features),
            lanes_m=config.warp_m // max(config.thread_m, 1),
            lanes_n=config.warp_n // max(config.thread_n, 1),
        )
