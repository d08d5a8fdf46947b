"""Kernel `simt`: fp32 on the CUDA cores, warp-tiled; every shape, stride and alignment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.dtypes import DType, fp32
from tilewright.hardware import Hardware
from tilewright.kernels.refusal import Refusal, narrow_out_refused, oversized
from tilewright.kernels.simt_time import Array, Ways, breakdown, prediction, seconds, ways_of
from tilewright.kernels.tiled import TiledConstants, TiledFeatures, TiledKernel
from tilewright.model.prediction import Breakdown, Power, Prediction
from tilewright.problem import Problem
from tilewright.rounding import round_up


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

        With `split_k`, also a tile of sums, which the CTAs of the cluster send.
        """
        sums = self.tile_m * self.tile_n if self.split_k > 1 else 0
        return 2 * (self.tile_m + 4 + self.tile_n + 4) * self.tile_k * nbytes + 4 * sums


_LARGEST = SimtConfig(tile_m=256, tile_k=8, warp_n=64, thread_m=16)

_SMALL = SimtConfig(tile_m=64, tile_n=64, warp_m=32, thread_n=4)

_CANDIDATES = (
    SimtConfig(),
    _LARGEST,
    _SMALL,
    replace(_SMALL, tile_k=32),
    replace(_SMALL, tile_m=32, tile_n=128),
    replace(_SMALL, tile_m=128, tile_n=32),
)
"""A Config for each tile; of equal ones, the first is taken."""

_SPLIT = tuple(
    replace(each, split_k=parts)
    for parts in (1, 2, 4, 8)
    for each in _CANDIDATES
    if parts == 1 or each != _LARGEST  # with half a tile each, smaller ones suit better
)
"""All Configs on GPUs that have clusters."""

_BLOCKINGS = (
    SimtConfig(tile_m=64, tile_n=64, warp_m=32, warp_n=64),
    SimtConfig(tile_m=64),
    SimtConfig(tile_n=64),
    SimtConfig(tile_k=8, warp_n=64, thread_m=16),
)
"""What a tuner tries too: each is the quickest one somewhere (results/fp32_split_h200.json, fp32_tiles_h200.json), but
the model misplaces them."""


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
        (
            "split_k == 1 or split_k == 2 or split_k == 4 or split_k == 8",
            "clusters of 1, 2, 4 or 8 CTAs fit on any GPU that has clusters: take one of these",
        ),
        (
            "thread_m % split_k == 0",
            "each CTA of a cluster ends with as many rows of a thread: make thread_m a multiple of split_k",
        ),
        ("split_k == 1 or not sums_columns", "columns are summed over whole tiles of sums: take split_k=1"),
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

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[SimtConfig]:
        """Those offered, the quickest first; Configs of equal time keep their order."""
        configs, times = self._timed(problem, hardware)
        return [configs[index] for index in times.argsort(kind="stable")]

    def best(self, problem: Problem, hardware: Hardware) -> SimtConfig:
        """The first of `configs`."""
        configs, times = self._timed(problem, hardware)
        return configs[int(times.argmin())]

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time by which it is ranked."""
        return float(self._timed(problem, hardware)[1].min())

    def _timed(self, problem: Problem, hardware: Hardware) -> tuple[Sequence[SimtConfig], Array]:
        """The Configs that are offered, and their seconds; m is rounded up to 8, so that choices are shared."""
        splits = hardware.capability >= 90 and hardware.sm_count >= _SPLIT[-1].split_k
        splits = splits and not (problem.batch_invariant or problem.epilogue.sums_columns)
        return _times(splits, problem._replace(m=round_up(problem.m, 8)), hardware)

    def variants(self, config: SimtConfig, problem: Problem, hardware: Hardware) -> Sequence[SimtConfig]:
        """Other tiles and blocks of threads, with as many parts of k."""
        return [replace(each, split_k=config.split_k) for each in _BLOCKINGS]

    def predict(self, config: SimtConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time of its waves, which no power state changes."""
        return prediction(ways_of((config,), hardware), problem, hardware)

    def breakdown(
        self, config: SimtConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Breakdown:
        """The parts of that time, and its limits."""
        return breakdown(ways_of((config,), hardware), problem, hardware)

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


@lru_cache(maxsize=2)  # asked for twice in a row where kernels contend
def _times(splits: bool, problem: Problem, hardware: Hardware) -> tuple[Sequence[SimtConfig], Array]:
    return _offered(splits), seconds(_ways(splits, hardware), problem, hardware)


@lru_cache(maxsize=16)
def _ways(splits: bool, hardware: Hardware) -> Ways:
    return ways_of(_offered(splits), hardware)


def _offered(splits: bool) -> Sequence[SimtConfig]:
    return _SPLIT if splits else _CANDIDATES
