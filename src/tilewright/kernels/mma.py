"""Kernel `mma`: mma.sync tensor cores with a cp.async pipeline; types of 2 bytes and 1, every shape and stride."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.dtypes import FP8, TENSOR_PAIRS, DType
from tilewright.hardware import Hardware
from tilewright.kernels.mma_time import narrow_seconds, prepared, times, with_narrow
from tilewright.kernels.refusal import Refusal, narrow_out_refused, overflowing, oversized
from tilewright.kernels.tiled import WHOLE_PAIRS, TiledConstants, TiledFeatures, TiledKernel
from tilewright.model.prediction import Breakdown, Power, Prediction, breakdown, predict
from tilewright.problem import Problem, cuts_k
from tilewright.rounding import round_up


@dataclass(frozen=True, slots=True)
class MmaConfig:
    """The Config of `mma`.

    A CTA of `warps_m` x `warps_n` warps makes one (`tile_m`, `tile_n`) tile of out, `tile_k` at a time, through a ring
    of `stages` in shared memory; CTAs walk out in bands of `group_m` tile rows. `tile_k` is 32 or 64 for elements of 2
    bytes, and 64 or 128 for those of 1. Where elements are loaded one by one, threads hold their part of such a tile in
    registers: with fewer than 8 warps, 128x128 spills.
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

    def smem_bytes(self, nbytes: int) -> int:
        """Shared memory of a CTA: all stages of A's and B's tiles, of elements of so many bytes."""
        return self.stages * (self.tile_m + self.tile_n) * self.tile_k * nbytes


_VECTOR_COPIES = (MmaConfig(), MmaConfig(tile_n=256, warps_n=4, stages=3), MmaConfig(tile_m=64, tile_n=64))
# Narrow copies and loads by element need more registers and instructions: twice the warps for the same tile.
_NARROW_COPIES = (MmaConfig(warps_n=4), MmaConfig(tile_m=64, tile_n=64))

_STEP_BYTES = 32
"""Of k, in one mma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaConstants(TiledConstants):
    """The TiledConstants of `mma`, with the ring, the warps' blocks and the width of asynchronous copies.

    k_step: the extent of an mma along k. a_down, b_down: whether neighboring threads load from neighboring rows or
    columns, where these are what is contiguous, and elements are loaded one by one. staged_rows: the rows that a warp
    gathers in shared memory before it stores them, or 0.
    """

    Input: DType
    InputB: DType
    k_step: int
    a_down: bool
    b_down: bool
    stages: int
    warps_m: int
    warps_n: int
    warp_m: int
    warp_n: int
    a_copy_bytes: int
    b_copy_bytes: int
    staged_rows: int


class MmaKernel(TiledKernel):
    """The fallback kernel for every product of elements of 2 bytes or 1, with any strides and alignment.

    Tiles of 1-byte elements are K-major in shared memory, since ldmatrix transposes pairs of bytes. Operands that are
    stored otherwise are loaded element by element.
    """

    name = "mma"
    unit = "mma"
    summary = "mma.sync tensor cores behind a cp.async pipeline; all but fp32, every shape, stride and alignment"
    config_type = MmaConfig
    header = "kernels/mma.cuh"
    rules = (
        (
            "tile_k == 2 * k_step or tile_k == 4 * k_step",
            "k steps of 32 bytes come in pairs, and rows of 64 or 128 bytes are swizzled: make tile_k 32 or 64, of "
            "bytes 64 or 128",
        ),
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
            "scaled_columns == 0 or warp_m * warp_n <= 2048",
            "scales of blocks take as many registers as accumulators again: take more warps",
        ),
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
            "tile_m * k_step % (threads * a_copy_elements) == 0",
            "every thread has the same part in what is copied of A in one k step: take fewer warps or a larger tile_m",
        ),
        (
            "tile_n * k_step % (threads * b_copy_elements) == 0",
            "every thread has the same part in what is copied of B in one k step: take fewer warps or a larger tile_n",
        ),
        WHOLE_PAIRS,
        ("group_m >= 1 and group_m <= 64", "tiles are walked in bands of 1 to 64 rows"),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `mma` does not take the problem: its dtypes, its scales, its k, or the GPU."""
        a, b = problem.a.dtype, problem.b.dtype
        if (a, b) not in TENSOR_PAIRS:
            return Refusal(f"mma multiplies bf16, fp16 and int8 by themselves, and fp8, and a is {a}, b is {b}")
        if a in FP8 and hardware.capability < 89:
            return Refusal(
                f"mma needs tensor cores for fp8, sm_89 or later, and {hardware.its_arch}: convert a and b to fp16"
            )
        if a in FP8 and hardware.capability == 89 and not (problem.fast_accumulation or cuts_k(problem.recipe)):
            return Refusal(
                f"mma adds fp8 with 13 bits on sm_89, which {hardware.name} is: pass fast_accumulation=True if that is "
                f"enough, or convert a and b to fp16"
            )
        if hardware.capability < 80:
            return Refusal(f"mma needs cp.async and bf16 tensor cores, sm_80 or later, and {hardware.its_arch}")
        return overflowing(problem) or narrow_out_refused(problem, hardware) or oversized(problem)

    def staged(self, config: MmaConfig, problem: Problem, hardware: Hardware) -> MmaConfig:
        """The Config with as many of its stages as fit, if three do."""
        room = hardware.smem_bytes // max(1, replace(config, stages=1).smem_bytes(problem.a.dtype.nbytes))
        return replace(config, stages=min(config.stages, room)) if room >= 3 else config

    def copy_widths(self, problem: Problem) -> tuple[int, int]:
        """Those of all tiled kernels; elements of 1 byte are copied 4 or more at a time along k, or one by one."""
        a_bytes, b_bytes = super().copy_widths(problem)
        if problem.a.dtype.nbytes > 1:
            return a_bytes, b_bytes
        return (
            a_bytes if problem.a.is_row_major and a_bytes >= 4 else 1,
            b_bytes if not problem.b.is_row_major and b_bytes >= 4 else 1,
        )

    def offered(self, problem: Problem) -> tuple[MmaConfig, ...]:
        """A Config for each tile size that suits the problem's alignment."""
        few = min(self.copy_widths(problem)) < 8 or cuts_k(problem.recipe)  # scales of blocks need registers, too
        configs = _NARROW_COPIES if few else _VECTOR_COPIES
        return configs if problem.a.dtype.nbytes > 1 else tuple(map(_of_bytes, configs))

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[MmaConfig]:
        """Those offered, the quickest by `ranked_seconds` first; Configs of equal time keep their order.

        Where memory alone takes longer than they do, what they take without that decides.
        """
        return [config for *_, config in self._ranked(problem, hardware)]

    def best(self, problem: Problem, hardware: Hardware) -> MmaConfig:
        """The first of `configs`."""
        return self._ranked(problem, hardware)[0][-1]

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time by which it is ranked."""
        return self._ranked(problem, hardware)[0][0]

    def _ranked(self, problem: Problem, hardware: Hardware) -> list[tuple[float, float, MmaConfig]]:
        """What `predict` says of the offered Configs, their times without memory's, and they, in order.

        m is rounded up to 8, of which tiles are multiples, so that choices are shared. An empty sum still has tiles to
        store.
        """
        return self._times(problem._replace(m=round_up(problem.m, 8), k=max(problem.k, 1)), hardware)

    @lru_cache(maxsize=2)  # noqa: B019 (asked for twice in a row where kernels contend)
    def _times(self, problem: Problem, hardware: Hardware) -> list[tuple[float, float, MmaConfig]]:
        return times(self.offered(problem), problem, hardware, self._narrowest(problem._replace(m=1)))

    def predict(self, config: MmaConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time that the model gives a Config, with its narrow accesses."""
        predicted = predict(problem, prepared(config, power, problem.a.dtype, hardware), hardware)
        return predicted._replace(seconds=max(predicted.seconds, sum(self._narrow_seconds(config, problem, hardware))))

    def breakdown(self, config: MmaConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Breakdown:
        """The parts of that time, and its limits."""
        found = breakdown(problem, prepared(config, power, problem.a.dtype, hardware), self.unit, hardware)
        return with_narrow(found, *self._narrow_seconds(config, problem, hardware))

    def _narrow_seconds(self, config: MmaConfig, problem: Problem, hardware: Hardware) -> tuple[float, float]:
        return narrow_seconds(config, problem, hardware, self._narrowest(problem._replace(m=1)))

    @lru_cache(maxsize=256)  # noqa: B019 (kernels are few and kept)
    def _narrowest(self, problem: Problem) -> int:
        """The bytes of the narrowest copies."""
        return min(self.copy_widths(problem))

    def copy_elements(self, nbytes: int, dtype: DType) -> int:
        """The elements of 16 bytes; loads of single elements are gathered into these."""
        return (16 if nbytes == dtype.nbytes else nbytes) // dtype.nbytes

    def derive(self, config: MmaConfig, features: TiledFeatures) -> MmaConstants:
        """The Constants of a Config for problems with these features."""
        nbytes = features.Input.nbytes
        # Elements of 1 byte are K-major in shared memory.
        kept = features if nbytes > 1 else features._replace(a_k_major=True, b_k_major=True)
        warp_m, warp_n = config.tile_m // max(config.warps_m, 1), config.tile_n // max(config.warps_n, 1)
        return MmaConstants(
            **self.walked(config, kept),
            Input=features.Input,
            InputB=features.InputB,
            k_step=_STEP_BYTES // nbytes,
            a_down=nbytes == 1 and not features.a_k_major,
            b_down=nbytes == 1 and not features.b_k_major,
            warp_m=warp_m,
            warp_n=warp_n,
            a_copy_bytes=features.a_copy_bytes,
            b_copy_bytes=features.b_copy_bytes,
            staged_rows=_staged_rows(config, warp_m, warp_n, features),
        )


def _staged_rows(config: MmaConfig, warp_m: int, warp_n: int, features: TiledFeatures) -> int:
    """How many rows of its block a warp gathers in shared memory before it stores them, as many as fit.

    0: none, since pairs of results are stored at once, or since no 16 rows fit.
    """
    if features.epilogue.store_elements > 1:
        return 0
    columns = warp_n // (1 if features.epilogue.gate is None else 2)
    row_bytes = columns * features.epilogue.Output.nbytes + 16
    room = config.smem_bytes(features.Input.nbytes) // max(config.warps_m * config.warps_n * row_bytes, 1)
    return next((rows for rows in (warp_m, 64, 32, 16) if 0 < rows <= room and warp_m % rows == 0), 0)


def _of_bytes(config: MmaConfig) -> MmaConfig:
    """The Config for elements of 1 byte that moves as many bytes."""
    return replace(config, tile_k=2 * config.tile_k)
