"""Kernel `simt`: fp32 on the CUDA cores, warp-tiled; every shape, stride and alignment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tilewright.dtypes import DType, fp32
from tilewright.hardware import Hardware
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, narrow_out_refused, oversized
from tilewright.kernels.simt_room import ctas_with_registers, ctas_with_room, evenly, spare_bytes
from tilewright.kernels.simt_time import NEIGHBORS, Ways, breakdown, prediction, seconds, ways_of
from tilewright.kernels.tiled import WHOLE_PAIRS, TiledConstants, TiledFeatures, TiledKernel
from tilewright.kernels.timed import TimedKernel
from tilewright.model.prediction import Breakdown, Power, Prediction
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Problem
from tilewright.rounding import ceil_div, round_up


@dataclass(frozen=True, slots=True)
class SimtConfig:
    """The Config of `simt`.

    A CTA makes one (`tile_m`, `tile_n`) tile of out, `tile_k` at a time through two buffers in shared memory; a warp
    makes (`warp_m`, `warp_n`) of it, and a thread (`thread_m`, `thread_n`); CTAs walk out in bands of `group_m` tile
    rows. A cluster is `split_k` CTAs that make one tile, each the sum over a part of k.
    """

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 16
    warp_m: int = 64
    warp_n: int = 32
    thread_m: int = 8
    thread_n: int = 8
    group_m: int = 8
    split_k: int = 1

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return 32 * (self.tile_m // max(self.warp_m, 1)) * (self.tile_n // max(self.warp_n, 1))

    def smem_bytes(self, nbytes: int) -> int:
        """Shared memory of a CTA: two buffers of A's and B's tiles, each row padded by 4 elements of so many bytes.

        With `split_k`, also the sums that the CTAs of the cluster send: of each, as many rows of all threads.
        """
        sums = 0
        if self.split_k > 1:
            rows = ceil_div(self.thread_m, self.split_k)
            sums = self.split_k * rows * self.tile_m * self.tile_n // max(self.thread_m, 1)
        return 2 * (self.tile_m + 4 + self.tile_n + 4) * self.tile_k * nbytes + 4 * sums


_SMALL = SimtConfig(tile_m=64, tile_n=64, warp_m=32, thread_n=4)
_TWO_WARPS = SimtConfig(tile_m=64, tile_n=64, warp_m=32, warp_n=64)

_TILES = (
    SimtConfig(),
    SimtConfig(tile_m=256, tile_k=8, warp_n=64, thread_m=16),
    SimtConfig(tile_m=64, warp_m=32, warp_n=64),
    SimtConfig(tile_n=64),
    _TWO_WARPS,
    replace(_TWO_WARPS, tile_m=32, tile_n=128),
    _SMALL,
    replace(_SMALL, tile_k=32),
    replace(_SMALL, tile_m=32, tile_n=128),
    replace(_SMALL, tile_m=128, tile_n=32),
)
"""A Config for each tile; of equal ones, the first is taken. Each is the quickest one somewhere."""

_PARTS = (1, 2, 3, 4, 5, 6, 8)
"""Of k: clusters of 7 CTAs find no more room than those of 8."""

_SPLIT = tuple(replace(each, split_k=parts) for parts in _PARTS for each in _TILES)
"""All Configs on GPUs that have clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimtConstants(TiledConstants):
    """The TiledConstants of `simt`, with the blocks of warps and threads, and the lanes of a warp along m and n."""

    warp_m: int
    warp_n: int
    thread_m: int
    thread_n: int
    lanes_m: int
    lanes_n: int


class SimtKernel(TimedKernel, TiledKernel):
    """The kernel of fp32 products: no tensor cores, no rounding to a narrower type."""

    name = "simt"
    unit = "cuda_cores"
    summary = "CUDA cores, warp-tiled with register blocks and double buffering; fp32, every shape and stride"
    config_type = SimtConfig
    header = "kernels/simt.cuh"
    neighbors = NEIGHBORS
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
        WHOLE_PAIRS,
        ("split_k >= 1 and split_k <= 8", "a cluster has up to 8 CTAs: take a split_k from 1 to 8"),
        ("split_k == 1 or not sums_columns", "columns are summed over whole tiles: take split_k=1, or no column_sums"),
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

    def timed(self, problem: Problem, hardware: Hardware) -> tuple[Sequence[SimtConfig], Array]:
        """The Configs that are offered, and their seconds; m is rounded up to 8, so that choices are shared."""
        splits = hardware.capability >= 90 and hardware.sm_count >= _PARTS[-1]
        splits = splits and not (problem.batch_invariant or problem.epilogue.sums_columns)
        return _times(splits, self._wide(problem), problem._replace(m=round_up(problem.m, 8)), hardware)

    def _wide(self, problem: Problem) -> tuple[int, int]:
        """How many elements of A, and of B, a thread loads at once."""
        a_bytes, b_bytes = self.copy_widths(problem)
        return self.copy_elements(a_bytes, fp32), self.copy_elements(b_bytes, fp32)

    def predict(self, config: SimtConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time of its waves, which no power state changes."""
        return prediction(ways_of((config,), self._wide(problem), hardware), problem, hardware)

    def breakdown(
        self, config: SimtConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Breakdown:
        """The parts of that time, and its limits."""
        return breakdown(ways_of((config,), self._wide(problem), hardware), problem, hardware)

    def copy_elements(self, nbytes: int, dtype: DType) -> int:
        """Four if 16 bytes are aligned, else one."""
        return 4 if nbytes == 16 else 1

    def ctas_of_sm(self, constants: Any) -> int:
        """As many as find registers."""
        return ctas_with_registers(constants)

    def launch_shape(self, constants: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        """That of tiled kernels, with shared memory to spare where SMs would not share the CTAs evenly.

        An H200 puts CTAs beside others while SMs have none, so that some have all for which there is room.
        """
        shape = super().launch_shape(constants, problem, hardware)
        if hardware.capability < 90:  # as measured on Hopper
            return shape
        room = ctas_with_room(constants, constants.smem_bytes, hardware)
        ctas = evenly(shape.grid // constants.cluster, hardware.clusters(constants.cluster), room)
        # spare_bytes is the last field, and _replace would take twice the time.
        return LaunchShape(*shape[:-1], spare_bytes(ctas, constants.smem_bytes, hardware))

    def derive(self, config: SimtConfig, features: TiledFeatures) -> SimtConstants:
        """The Constants of a Config for problems with these features."""
        return SimtConstants(
            **self.walked(config, features),
            lanes_m=config.warp_m // max(config.thread_m, 1),
            lanes_n=config.warp_n // max(config.thread_n, 1),
        )


@lru_cache(maxsize=2)  # asked for twice in a row where kernels contend
def _times(
    splits: bool, wide: tuple[int, int], problem: Problem, hardware: Hardware
) -> tuple[Sequence[SimtConfig], Array]:
    offered, ways = _ways(splits, wide, hardware)
    return offered, seconds(ways, problem, hardware)


@lru_cache(maxsize=32)
def _ways(splits: bool, wide: tuple[int, int], hardware: Hardware) -> tuple[Sequence[SimtConfig], Ways]:
    """The Configs that fit on the GPU and whose threads together load whole rows along m or n, so many elements each.

    What is contiguous along k has shorter rows, but the few that it would allow besides are no quicker.
    """
    offered = [
        each
        for each in (_SPLIT if splits else _TILES)
        if each.smem_bytes(fp32.nbytes) <= hardware.smem_bytes
        and each.threads * wide[0] % each.tile_m == 0
        and each.threads * wide[1] % each.tile_n == 0
    ]
    return offered, ways_of(offered, wide, hardware)
