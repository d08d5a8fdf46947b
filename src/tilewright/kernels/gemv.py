"""Kernel `gemv`: few rows of activations at the speed of memory; bf16, fp16 and fp32, every stride and alignment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.dtypes import DType, bf16, fp16, fp32
from tilewright.hardware import Hardware, Unit
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.gemv_time import Ways, breakdown, knows, predicted, ranked, seconds, ways_of, wide_loads
from tilewright.kernels.kernel import ConfigError, Constants
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, column_sums_refused, narrow_out_refused, oversized
from tilewright.kernels.registry import FEW_ROWS
from tilewright.kernels.tiled import tile_count
from tilewright.kernels.timed import TimedKernel
from tilewright.model.prediction import Breakdown, Power, Prediction
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Matrix, Problem

if TYPE_CHECKING:
    from tilewright.model.tiling.levels import Block


@dataclass(frozen=True, slots=True)
class GemvConfig:
    """The Config of `gemv`.

    A CTA of `warps` warps makes one (`tile_m`, `tile_n`) tile of out. A warp keeps the loads of `in_flight` steps under
    way; a step is 64 bytes of k in each of `k_parts` parts, which a warp reads at once and multiplies in spare columns
    of mma.sync, or, of fp32, in lanes of its own. A cluster is `split_k` CTAs that make one tile, each the sum over a
    part of k. An SM has room for `ctas` CTAs at once, since threads get no more registers than that leaves.

    The first `prefetch` CTAs bring their first loads to L2 before the grid ahead of this one has ended.

    With `swap_ab` the kernel computes out.T = b.T @ a.T; tile_m then counts columns of out, and tile_n rows.
    """

    tile_m: int = 1
    tile_n: int = 8
    k_parts: int = 8
    warps: int = 8
    in_flight: int = 1
    split_k: int = 1
    ctas: int = 2
    prefetch: int = 0
    swap_ab: bool = False


_MOST_AHEAD = 4
"""The most rows of fp32 that have registers for activations of all steps under way."""

_ROWS_AT_ONCE = 13
"""Of more rows, those whose activations are given registers at once: with fewer, ptxas may spill a few words."""


_MOST_WORDS = _MOST_SUMS = 96
"""The most registers of a thread for weights that are loaded, and for sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvConstants(Constants):
    """The Constants of `gemv`.

    a_bytes, b_bytes: the width of a load. a_straddles, b_straddles: whether 16 bytes lie in two aligned loads.
    b_k_major: whether neighbors of B in memory are neighbors along k. workers: the warps that take the steps of a tile.
    rows_apart: a lane loads every so many-th row of A. reads_ahead: whether it loads them with the weights, and not
    when these have arrived. block_n: the columns that the narrowest tile has. accumulators, load_words: registers of a
    thread with sums and with weights.
    """

    Input: DType
    k_parts: int
    in_flight: int
    ctas: int
    a_bytes: int
    b_bytes: int
    a_straddles: bool
    b_straddles: bool
    b_k_major: bool
    workers: int
    rows_apart: int
    reads_ahead: bool
    block_n: int
    accumulators: int
    load_words: int


class GemvFeatures(NamedTuple):
    """The compiled-in features of a Problem: how A and B are stored and aligned, and the epilogue."""

    Input: DType
    a_bytes: int
    b_bytes: int
    a_straddles: bool
    b_straddles: bool
    b_k_major: bool
    epilogue: EpilogueConstants


class GemvKernel(TimedKernel):
    """The kernel of products that take as long as reading the weights."""

    name = "gemv"
    unit = "mma"
    contends = True
    summary = "few rows or columns: weights go from memory to registers; bf16, fp16 and fp32, every shape and stride"
    config_type = GemvConfig
    header = "kernels/gemv.cuh"
    rules = (
        (
            "k_parts == 1 or k_parts == 2 or k_parts == 4 or k_parts == 8",
            "eight groups of lanes are shared by parts of k: take 1, 2, 4 or 8",
        ),
        ("b_k_major or k_parts == 1", "parts of k pay where B is contiguous along k: take k_parts=1"),
        (
            "tile_m >= 1 and tile_m % rows_apart == 0 and tile_m <= 16",
            "take up to 16 rows; of 2 bytes a multiple of 8 / k_parts, whose parts fill columns of mma.sync by eights",
        ),
        (
            "tile_n >= block_n and tile_n % block_n == 0",
            "lanes have 16 / k_parts columns, or 128 bytes of them if B is contiguous along n: make tile_n a multiple",
        ),
        ("threads >= 32 and threads <= 512", "1 to 16 warps take turns along k"),
        ("ctas >= 1 and threads * ctas <= 2048", "an SM has room for 2048 threads: take fewer CTAs or warps"),
        (
            f"in_flight >= 1 and load_words <= {_MOST_WORDS}",
            "a thread has registers for 24 loads of 16 bytes of weights: take fewer steps, or a smaller tile",
        ),
        (
            f"accumulators <= {_MOST_SUMS}",
            f"a thread has registers for {_MOST_SUMS} sums: take a smaller tile, or fewer parts of k",
        ),
        (
            "split_k == 1 or split_k == 2 or split_k == 4 or split_k == 8",
            "clusters of 1, 2, 4 or 8 CTAs fit on any GPU that has clusters: take one of these",
        ),
        (
            "tile_m * tile_n % (2 * split_k) == 0",
            "each CTA that splits k finishes as many pairs: take a larger tile, or a smaller split_k",
        ),
    )

    def unit_of(self, dtype: DType) -> Unit:
        """CUDA cores for fp32, which tensor cores would round."""
        return "cuda_cores" if dtype == fp32 else self.unit

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `gemv` does not take the problem: GPU, dtypes, its size, or that it is batch-invariant."""
        a, b = problem.a.dtype, problem.b.dtype
        if hardware.capability < 90:
            return Refusal(f"gemv needs clusters, sm_90 or later, and {hardware.its_arch}")
        if a != b or a not in (bf16, fp16, fp32):
            return Refusal(f"gemv multiplies bf16, fp16 or fp32 by the same type, and a is {a}, b is {b}")
        if problem.batch_invariant:
            return Refusal(
                "gemv adds in an order that depends on the number of rows, and the problem is batch-invariant"
            )
        if problem.epilogue.is_stacked and problem.b.is_row_major and problem.k > 1:
            return Refusal(
                "gemv takes the pairs of gate='stacked' from a b that is stored by columns, as (n, k), and b is not"
            )
        return narrow_out_refused(problem, hardware) or oversized(problem) or column_sums_refused(problem, self.name)

    def ranked_seconds(self, config: GemvConfig, problem: Problem, hardware: Hardware) -> float:
        """The time by which any Config is ranked beside other kernels."""
        oriented, ways, _ = self._way(config, problem, hardware)
        return seconds(ways, oriented).item() * self.ranking_factor(config, problem)

    def corrects(self, problem: Problem, hardware: Hardware) -> bool:
        """Whether trees know launches of such elements on such a GPU."""
        return knows(problem.a.dtype, hardware)

    def ranking_factor(self, config: GemvConfig, problem: Problem) -> float:
        """What that time is of `seconds`; Configs of one problem share it."""
        return ranked(config.tile_m, self.features(self.oriented(config, problem)), problem.k)

    @lru_cache(maxsize=16)  # noqa: B019 (there is one kernel)
    def timed(self, problem: Problem, hardware: Hardware) -> tuple[Sequence[GemvConfig], Array]:
        """The Configs that are offered, with as many rows as the problem needs, and their seconds."""
        swap_ab = problem.n < problem.m and problem.columns == problem.n
        oriented = problem.transposed if swap_ab else problem
        tile_m = next(tile_m for tile_m in (1, 2, 4, 8, 16) if tile_m >= min(oriented.m, FEW_ROWS))
        configs, ways = self._fitting(self.features(oriented), tile_m, hardware, swap_ab)
        return configs, seconds(ways, oriented)

    @lru_cache(maxsize=256)  # noqa: B019 (there is one kernel)
    def _fitting(
        self, features: GemvFeatures, tile_m: int, hardware: Hardware, swap_ab: bool
    ) -> tuple[Sequence[GemvConfig], Ways]:
        """The Configs that are offered, as they are and as the model sees them: for all n and k, which wait for it."""
        fitting = []
        for config in _offered(features, tile_m):
            constants = self.derive(config, features)
            taken = constants.load_words <= _MOST_WORDS and constants.accumulators <= _MOST_SUMS
            ctas = _ctas_of(constants) if taken else 0
            if ctas > 0 and config.split_k <= hardware.sm_count:
                config = replace(config, ctas=ctas, prefetch=2 * hardware.sm_count, swap_ab=swap_ab)
                fitting.append((config, self.derive(config, features)))
        return [config for config, _ in fitting], ways_of(fitting, hardware)

    def oriented(self, config: GemvConfig, problem: Problem) -> Problem:
        """The problem, or its transpose with `swap_ab`."""
        return problem.transposed if config.swap_ab else problem

    def compiled(self, config: GemvConfig) -> GemvConfig:
        """The Config without `prefetch`, which is an argument of a launch."""
        return replace(config, prefetch=0)

    def launch_options(self, config: GemvConfig) -> dict[str, int]:
        """`prefetch`."""
        return {"prefetch": config.prefetch}

    def features(self, problem: Problem) -> GemvFeatures:
        """The storage and alignment of A and B, and the epilogue."""
        a, b = problem.a, problem.b
        k_major = _k_major(problem)
        a_bytes, a_straddles = _load(a.vector_bytes("column"), a.column_stride, problem.k, a.dtype)
        if a.dtype == fp32 and a_straddles:  # many rows find no registers for that
            a_bytes, a_straddles = a.dtype.nbytes, False
        if k_major:
            b_bytes, b_straddles = _load(b.vector_bytes("row"), b.row_stride, problem.k, b.dtype)
        else:
            b_bytes, b_straddles = _load(_whole_rows(b, problem.n), b.column_stride, problem.n, b.dtype)
        epilogue = EpilogueConstants.of(problem)
        return GemvFeatures(a.dtype, a_bytes, b_bytes, a_straddles, b_straddles, k_major, epilogue)

    def derive(self, config: GemvConfig, features: GemvFeatures) -> GemvConstants:
        """The Constants of a Config for problems with these features."""
        values = values_of(config)
        del values["warps"], values["prefetch"], values["swap_ab"]
        parts, wide = max(config.k_parts, 1), _wide(features.Input)
        by_mma = features.Input.nbytes == 2
        rows_apart = max(8 // parts, 1) if by_mma else 1
        received = config.tile_m * config.tile_n if config.split_k > 1 else 0
        return GemvConstants(
            **values,
            **features._asdict(),
            tile_k=4 * wide * parts,
            threads=32 * config.warps,
            smem_bytes=4 * (config.warps * config.tile_m * (config.tile_n + 4) + received),
            workers=config.warps * config.split_k,
            rows_apart=rows_apart,
            reads_ahead=by_mma or config.tile_m <= _MOST_AHEAD,
            block_n=16 // parts if features.b_k_major else 8 * wide,
            accumulators=config.tile_m // rows_apart * config.tile_n * parts // (4 if by_mma else 8),
            load_words=_words(features.b_straddles) * config.in_flight * wide_loads(config, features.b_k_major),
        )

    def tile_count(self, constants: Constants, problem: Problem) -> int:
        """Tiles that cover out, batches included, each once for every CTA that sums a part of it."""
        return tile_count(constants, problem) * constants.split_k

    def ctas_of_sm(self, constants: Any) -> int:
        """As many as the Config says."""
        ctas: int = constants.ctas
        return ctas

    def thread_block(self, constants: Any) -> "Block | None":
        """Those of mma.sync, or of fp32 the columns of a lane."""
        block = super().thread_block(constants)
        if block is None or constants.Input != fp32:
            return block
        return block._replace(m=constants.tile_m, n=constants.tile_n * constants.k_parts // 8)

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out, or a cluster; it waits for earlier grids itself."""
        tiles = self.tile_count(constants, problem)
        return LaunchShape(tiles, constants.threads, constants.cluster, constants.smem_bytes, True, keeps_l1=True)

    def _check_limits(self, config: Any, constants: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        if not 0 <= config.prefetch < 2**31:
            raise ConfigError.of(config, f"it has prefetch={config.prefetch}: count CTAs, from 0 to 2**31 - 1")
        if config.swap_ab and problem.columns != problem.n:
            raise ConfigError.of(
                config, "it computes the transposed product, whose columns are no pairs of a gate: take swap_ab=False"
            )
        return super()._check_limits(config, constants, problem, hardware)

    def predict(self, config: GemvConfig, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time of its waves: bytes cross GMEM, or steps wait for memory, which no power state changes."""
        oriented, ways, constants = self._way(config, problem, hardware)
        ctas = self.tile_count(constants, oriented)
        at_once = ways.at_once.item()
        waves = ceil(ctas / at_once)
        places = waves * at_once / config.split_k * config.tile_m * config.tile_n
        used = oriented.m * oriented.n * oriented.batch_count / places
        return Prediction(ctas, waves, used, predicted(ways, oriented).item(), oriented.flops)

    def breakdown(
        self, config: GemvConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Breakdown:
        """The parts of that time; what limits a wave limits the others, too."""
        oriented, ways, _ = self._way(config, problem, hardware)
        return breakdown(ways, oriented)

    def _way(self, config: GemvConfig, problem: Problem, hardware: Hardware) -> tuple[Problem, Ways, GemvConstants]:
        """The problem as it is solved with a Config, which the model sees as these Ways, and its Constants."""
        oriented = self.oriented(config, problem)
        constants = self.derive(config, self.features(oriented))
        return oriented, ways_of([(config, constants)], hardware), constants


def _offered(features: GemvFeatures, tile_m: int) -> Iterator[GemvConfig]:
    """The Configs for so many rows, whatever registers they take."""
    by_mma, k_major = features.Input.nbytes == 2, features.b_k_major
    rows = [tile_m]
    if not k_major and by_mma:
        rows = [max(tile_m, 8)]
    elif by_mma and tile_m < _MOST_AHEAD and (features.b_straddles or features.b_bytes < 16):
        rows.append(_MOST_AHEAD)  # narrow parts of k: where chunks are cut, wide ones gain nothing
    least = 8 if by_mma and not k_major else 4  # loads of weights that a thread has under way: more help nobody
    for tile_m in rows:
        k_parts, tiles_n = _cut(by_mma, k_major, tile_m)
        for split_k, tile_n, warps, loaded in product((1, 2, 4, 8), tiles_n, (8, 16, 4), (2 * least, least)):
            config = GemvConfig(tile_m, tile_n, k_parts, warps, split_k=split_k)
            in_flight, rest = divmod(loaded, wide_loads(config, k_major))
            if in_flight > 2 and not by_mma and tile_m > _MOST_AHEAD:
                continue  # activations wait for their own step, so more weights under way do not help
            if in_flight and not rest and tile_m * tile_n % (2 * split_k) == 0:
                yield replace(config, in_flight=in_flight)


def _cut(by_mma: bool, k_major: bool, tile_m: int) -> tuple[int, Sequence[int]]:
    """The parts of k, and the extents of tiles along n."""
    if k_major:
        k_parts = max(8 // tile_m, 2)
        return k_parts, [blocks * 16 // k_parts for blocks in (4, 2, 1)]
    return 1, (64, 128) if by_mma else (64, 32)


def _k_major(problem: Problem) -> bool:
    """Whether B is read along k; with k = 1, the pairs of a stacked gate are, however it is stored."""
    return not problem.b.is_row_major or problem.epilogue.is_stacked


def _wide(dtype: DType) -> int:
    """The elements of 16 bytes."""
    return 16 // dtype.nbytes


def _load(nbytes: int, stride: int, length: int, dtype: DType) -> tuple[int, bool]:
    """The width of a load, and whether 16 bytes straddle two, of rows in which so many bytes are aligned."""
    return (16, True) if stride == 1 and nbytes < 8 and length >= _wide(dtype) else (nbytes, False)


def _words(straddles: bool) -> int:
    """The registers that loads of 16 bytes fill."""
    return 8 if straddles else 4


_OTHER_REGISTERS = 26
"""Registers of a thread besides sums and loads: with these, ptxas spills nothing of the Configs offered."""


_GATHERED_REGISTERS = 36
"""Registers more where elements of activations are loaded one by one."""


def _ctas_of(constants: GemvConstants) -> int:
    """How many CTAs find registers on an SM, with the loads of weights and activations in flight."""
    rows = constants.tile_m // constants.rows_apart
    vectors = constants.in_flight * rows if constants.reads_ahead else min(rows, _ROWS_AT_ONCE)
    activations = _words(constants.a_straddles) * vectors
    gathered = _GATHERED_REGISTERS if constants.a_bytes < 16 and not constants.a_straddles else 0
    registers = _OTHER_REGISTERS + constants.accumulators + constants.load_words + activations + gathered
    return 65536 // (constants.threads * registers)


def _whole_rows(b: Matrix, n: int) -> int:
    """The widest access that is aligned in rows of B and of which each lies inside a row or outside."""
    row_bytes = n * b.dtype.nbytes
    return min(b.vector_bytes("column"), row_bytes & -row_bytes)
