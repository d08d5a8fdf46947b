"""Kernel `wgmma`: Hopper's asynchronous tensor cores fed by TMA; types of 2 bytes in any layout, of 1 byte K-major."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from math import isfinite
from typing import Any

from tilewright.dtypes import TENSOR_PAIRS, int8
from tilewright.errors import ArgumentValueError
from tilewright.expression.tree import SUMS_OF_B
from tilewright.hardware import Hardware
from tilewright.jit.source import Major, wgmma_wrapper
from tilewright.kernels import tma
from tilewright.kernels.epilogue import scaled_columns
from tilewright.kernels.kernel import ConfigError, Kernel
from tilewright.kernels.parameters import LaunchShape, TensorMapSpec
from tilewright.kernels.refusal import Refusal, overflowing, oversized, straddling_blocks
from tilewright.kernels.wgmma.config import SPAN, SPAN_BYTES, WgmmaConfig
from tilewright.kernels.wgmma.constants import WgmmaConstants, WgmmaFeatures, constants_of
from tilewright.kernels.wgmma.operands import (
    Stores,
    finish,
    most_accumulators,
    multiple_n,
    operands_of,
    promotion,
    row_bytes,
    scattered,
)
from tilewright.kernels.wgmma.space import LISTED, Limits, Space, prepared_of
from tilewright.kernels.wgmma.space import space as space_of
from tilewright.model.cost import Prepared, is_short
from tilewright.model.prediction import Breakdown, Power, Prediction, breakdown, predict
from tilewright.problem import Problem
from tilewright.rounding import ceil_div, round_up

MAX_STEPS = 2**31 - 1
"""The most k-blocks of one CTA, which its consumers count in 32 bits (mainloop/wgmma_consumer.cuh)."""


HALVES_IN_PANELS = (
    "not (stacked and b_mn_major) or tile_n % 128 == 0",
    "half of the tile's columns come from each half of b, in panels of 64: make tile_n 128 or 256",
)
"""The rule about tiles of a gate='stacked' whose b is contiguous along n."""


class WgmmaKernel(Kernel):
    """The persistent warp-specialized GEMM for sm_90a: TMA ring, wgmma, multicast in clusters."""

    name = "wgmma"
    unit = "wgmma"
    summary = "Hopper's asynchronous tensor cores (wgmma) fed by TMA; all but fp32, operands that TMA can address"
    config_type = WgmmaConfig
    header = "kernels/wgmma.cuh"
    rules = (
        (
            "row_blocks >= 1 and row_blocks <= 2 + 2 * ping_pong and tile_m == 64 * sharers * row_blocks",
            "each consumer warpgroup takes one or two blocks of 64 rows, with ping_pong up to four: make tile_m 64, "
            "128, 192 or 256",
        ),
        ("tile_n >= 8 and tile_n <= 256 and tile_n % 8 == 0", "wgmma multiplies 8, 16, ... 256 columns"),
        (
            "accumulators + promoted <= 208 and (consumers < 3 or accumulators + promoted <= 96)",
            "a thread has registers for 208 accumulators, or for 96 where three consumers share tile_m=192, without "
            "ping_pong; those of a row block count twice where sums of fp8 are promoted, and scales of blocks take "
            "some: take a smaller tile_n or tile_m, or fast_accumulation=True for fp8",
        ),
        (
            "k_spans >= 1 and k_spans <= 4 and tile_k * input_bytes == 128 * k_spans",
            "a k-block is one to four rows of 128 bytes: make tile_k 64, 128, 192 or 256, of bytes 128 or 256",
        ),
        (
            "tile_n <= 32 or tile_n % n_step == 0",
            "wgmma multiplies 8, 16, 24, 32, 48, ... 256 columns of int8",
        ),
        (
            "scaled_columns != 128 or stacked or tile_n <= 128 + (tile_n & -tile_n)",
            "a tile's columns have two scales at most, each for 128 columns: make tile_n 192, 160 or at most 144",
        ),
        (
            "scaled_columns != 128 or not stacked or 256 % tile_n == 0",
            "each half of a tile's columns has one scale for 128 columns: make tile_n 16, 32, 64, 128 or 256",
        ),
        (
            "not promotes or wait_depth == 0 or row_blocks == 1",
            "a consumer that promotes sums has products of two k-blocks of 64 rows in flight: take wait_depth=0, or "
            "tile_m 128 or less, with ping_pong 64",
        ),
        ("not promotes or k_spans == 1", "sums of fp8 are promoted every 128 of k: make tile_k 128"),
        ("split_k >= 1", "split_k CTAs each sum a part of k: take split_k=1, which leaves k whole"),
        ("cluster_m * cluster_n * split_k <= 8", "a cluster has up to eight CTAs: take a smaller split_k or cluster"),
        (
            "tile_n % (8 * split_k) == 0",
            "each CTA that splits k stores its columns by eights: make tile_n a multiple of 8 * split_k",
        ),
        (
            "split_k == 1 or out_columns * split_k == tile_n",
            "CTAs that split k exchange sums, which no gate pairs: take split_k=1 with a gate",
        ),
        ("stages >= 2", "loading and multiplying take a slot each: take stages=2 or more"),
        ("cluster_m == 1 or cluster_m == 2 or cluster_m == 4", "make cluster_m 1, 2 or 4: others do not pay"),
        ("cluster_n == 1 or cluster_n == 2 or cluster_n == 4", "make cluster_n 1, 2 or 4: others do not pay"),
        ("cluster_m * cluster_n <= 4", "more than four tiles that share loads were not measured: take fewer"),
        ("tma_epilogue or direct_epilogue", "epilogue is 'tma' or 'direct'"),
        (
            "direct_epilogue or output_bytes == 2",
            "stmatrix stages elements of 2 bytes: take epilogue='direct'",
        ),
        ("out_columns % 8 == 0", "out is stored in blocks of 8 columns: with a gate, make tile_n a multiple of 16"),
        ("direct_epilogue or out_by_tma", "TMA cannot write out, or would write beyond it: take epilogue='direct'"),
        HALVES_IN_PANELS,
        ("not overlap or output_bytes <= 2", "a tile that is held back must be packed: take overlap=False"),
        ("not overlap or split_k == 1", "CTAs that split k make one tile, with none to overlap: take overlap=False"),
        (
            "not ping_pong or (split_k == 1 and not overlap)",
            "consumers that take tiles by turns store while the other multiplies: take overlap=False and split_k=1",
        ),
        ("wait_depth == 0 or wait_depth == 1", "none or one k-block of wgmma stays in flight: take wait_depth 0 or 1"),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `wgmma` does not take the problem: GPU, dtypes, empty sums, its size, or the limits of TMA."""
        a, b = problem.a.dtype, problem.b.dtype
        if hardware.arch != "sm_90a":
            return Refusal(f"wgmma needs sm_90a (Hopper) and {hardware.its_arch}")
        if (a, b) not in TENSOR_PAIRS:
            return Refusal(f"wgmma multiplies bf16, fp16 and int8 by themselves, and fp8, and a is {a}, b is {b}")
        if problem.is_empty or problem.k == 0:
            why = "out has no element" if problem.is_empty else "k or alpha is 0"
            return Refusal(f"wgmma needs at least one product to sum, and {why}")
        if refusal := straddling_blocks(problem) or overflowing(problem) or oversized(problem):
            return refusal
        expression = problem.epilogue.expression
        if expression is not None and expression.sums_b:
            return Refusal("wgmma sums no columns of b, which zero_a is multiplied by", SUMS_OF_B)
        operands = operands_of(problem)
        return next((factor for factor in (operands.a, operands.b) if isinstance(factor, Refusal)), None)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[WgmmaConfig]:
        """The quickest by `model.cost`, the best first."""
        return self.candidates(problem, hardware, LISTED)

    def candidates(self, problem: Problem, hardware: Hardware, most: int) -> Sequence[WgmmaConfig]:
        """Any number of those."""
        space, product = self._space(problem, hardware)
        times = space.ranking.times(*product)
        m, n, batch_count = problem.m, problem.n, problem.batch_count
        best = times.argsort(kind="stable")[:most]
        return [space.config(int(index), m, n, batch_count) for index in best if isfinite(times[index])]

    def best(self, problem: Problem, hardware: Hardware) -> WgmmaConfig:
        """The first of `configs`, without the others."""
        space, product = self._space(problem, hardware)
        return space.config(space.ranking.best(*product), problem.m, problem.n, problem.batch_count)

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time by which it is ranked."""
        space, product = self._space(problem, hardware)
        return space.ranking.best_seconds(problem, hardware, *product)

    def variants(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> Sequence[WgmmaConfig]:
        """Other orders of tiles and prefetches, and the other ways to overlap and to store."""
        space, _ = self._space(problem, hardware)
        return space.variants(config)

    def staged(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> WgmmaConfig:
        """The Config with as many stages as fit; raises a ConfigError for one that breaks a rule."""
        self._check_rules(config, self.constants(config, problem))
        space, _ = self._space(problem, hardware)
        return space.with_most_stages(config)

    def is_near_best(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> bool:
        """Whether the model gives its tiling at most NEAR times the least time."""
        space, product = self._space(problem, hardware)
        return space.is_near_best(config, *product)

    def corrects(self, problem: Problem, hardware: Hardware) -> bool:
        """Whether the ranking of its tilings is corrected."""
        space, product = self._space(problem, hardware)
        return space.ranking.corrects(*product)

    def predict(
        self, config: WgmmaConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Prediction:
        """The time that the model gives a Config."""
        return predict(problem, _prepared(config, problem, hardware, power), hardware, row_bytes(problem))

    def breakdown(
        self, config: WgmmaConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Breakdown:
        """The parts of that time, and its limits."""
        prepared = _prepared(config, problem, hardware, power)
        return breakdown(problem, prepared, self.unit, hardware, row_bytes(problem))

    def ranked_seconds(self, config: WgmmaConfig, problem: Problem, hardware: Hardware) -> float:
        """What `predict` says, corrected as `model.ranking` has it, if its tiling is one of the space."""
        space, product = self._space(problem, hardware)
        index = space.index(config)
        if index is None:
            return super().ranked_seconds(config, problem, hardware)
        return space.ranking.seconds(index, problem, hardware, *product)

    def _space(self, problem: Problem, hardware: Hardware) -> tuple[Space, tuple[int, int, int, int, int]]:
        """The Space of a problem, and what its times take."""
        limits, apart = _limits(problem)
        return space_of(limits, problem.a.dtype, hardware), (*_rounded(problem), problem.k, problem.batch_count, apart)

    def oriented(self, config: WgmmaConfig, problem: Problem) -> Problem:
        """The problem, or with `swap_ab` its transpose."""
        return problem.transposed if config.swap_ab else problem

    def features(self, problem: Problem) -> WgmmaFeatures:
        """The storage of A and B, the ways to write out, and the epilogue."""
        return WgmmaFeatures.of(problem)

    def derive(self, config: WgmmaConfig, features: WgmmaFeatures) -> WgmmaConstants:
        """The Config's fields, the layouts of A and B in memory, and the sizes that follow."""
        return constants_of(config, features)

    def tile_count(self, constants: WgmmaConstants, problem: Problem) -> int:
        """Tiles of whole clusters that cover out, batches included."""
        return _cluster_tiles(constants, problem) * constants.cluster

    def launch_shape(self, constants: WgmmaConstants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each SM, or for each tile; each stays until all tiles are done.

        CTAs that split k make one tile and end.
        """
        clusters, cluster = _cluster_tiles(constants, problem), constants.cluster
        if constants.split_k == 1:
            clusters = min(clusters, hardware.clusters(cluster))
        return LaunchShape(clusters * cluster, constants.threads, cluster, constants.smem_bytes, dependent=True)

    def tensor_maps(self, constants: WgmmaConstants, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The maps of A and B, and of out with the TMA epilogue."""
        operands = operands_of(problem)
        maps = []
        for factor, tile in ((operands.a, constants.tile_m), (operands.b, b_rows(constants))):
            if isinstance(factor, Refusal):
                raise ArgumentValueError(f"{factor}: take another kernel")
            maps.append(factor.tensor.map(SPAN_BYTES // constants.input_bytes, SPAN if factor.mn_major else tile))
        if constants.tma_epilogue and isinstance(operands.out, tma.TmaTensor):
            maps.append(operands.out.map(constants.store_columns, 16))
        return tuple(maps)

    def remark(self, config: WgmmaConfig) -> str:
        """Whether the product is transposed, whether k is split, and who takes the tiles."""
        swapped = ["computes out.T = b.T @ a.T, with tile_m along n"] if config.swap_ab else []
        sharing = " that share loads with those of other tiles" if config.cluster_m * config.cluster_n > 1 else ""
        splitting = f"splits k over {config.split_k} CTAs{sharing}, since there are few tiles"
        split = [splitting] if config.split_k > 1 else []
        turns = ["lets two consumers take tiles by turns"] if config.ping_pong else []
        return "; ".join(swapped + split + turns)

    def compiled(self, config: WgmmaConfig) -> WgmmaConfig:
        """The Config without `group_m` and `prefetch`, which are arguments of a launch."""
        return _compiled(config)

    def launch_options(self, config: WgmmaConfig) -> dict[str, int]:
        """`group_m` and `prefetch`."""
        return {"group_m": config.group_m, "prefetch": config.prefetch}

    def _check_limits(self, config: Any, constants: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        shape = super()._check_limits(config, constants, problem, hardware)
        if not 1 <= config.group_m <= 64:
            raise ConfigError.of(config, f"it has group_m={config.group_m}: tiles are walked in bands of 1 to 64 rows")
        if not 0 <= config.prefetch <= 64:
            raise ConfigError.of(config, "up to 64 k-blocks are brought to L2 ahead: take a smaller prefetch")
        if config.swap_ab and problem.epilogue.keeps_columns:
            raise ConfigError.of(
                config,
                "it computes the transposed product, in which columns are rows: a gate, sums of columns and scales "
                "that change along k need swap_ab=False",
            )
        k_blocks = ceil_div(problem.k, constants.tile_k)
        if constants.split_k > k_blocks:
            raise ConfigError.of(
                config,
                f"it splits k into {constants.split_k} parts and {problem} has {k_blocks} "
                f"k-block{'s' * (k_blocks > 1)} of {constants.tile_k}: take a smaller split_k",
            )
        steps = ceil_div(self.tile_count(constants, problem), shape.grid) * ceil_div(k_blocks, constants.split_k)
        if steps > MAX_STEPS:
            raise ConfigError.of(
                config,
                f"it gives each CTA {steps} k-blocks of {problem} and at most {MAX_STEPS} are counted: split the "
                "product",
            )
        return shape

    def preamble(self, constants: WgmmaConstants) -> str:
        """The one wgmma instruction of these Constants."""
        a: Major = "MN" if constants.a_mn_major else "K"
        b: Major = "MN" if constants.b_mn_major else "K"
        return wgmma_wrapper(constants.tile_n, constants.Input.ptx, a, b, b_type=constants.InputB.ptx)


def b_rows(constants: WgmmaConstants) -> int:
    """The columns of B in one copy, if it is K-major: a tile has them from both halves of a stacked B."""
    epilogue = constants.epilogue
    return constants.tile_n // (2 if epilogue is not None and epilogue.is_stacked else 1)


def _rounded(problem: Problem) -> tuple[int, int]:
    """m and n, rounded up to 8, of which every tile is a multiple.

    Products that become equal have equal tiles, and share a choice.
    """
    return round_up(problem.m, 8), round_up(problem.n, 8)


def _prepared(config: WgmmaConfig, problem: Problem, hardware: Hardware, power: Power) -> Prepared:
    limits, dtype = _limits(problem)[0], problem.a.dtype
    solved = problem.transposed if config.swap_ab else problem
    shifted = config.epilogue == "direct" and Stores.of(solved.out, solved.m, solved.columns).chunks
    return prepared_of(
        config,
        limits.mn_major,
        limits.scattered,
        limits.promotion,
        limits.finish,
        limits.out_bytes,
        is_short(dtype, limits.out_bytes, *_rounded(problem), problem.k, any(limits.finish)),
        shifted,
        power,
        dtype,
        hardware,
    )


def _limits(problem: Problem) -> tuple[Limits, int]:
    """The Limits of a problem, and its `row_bytes`: beyond 16 rows, they depend on the rest of m divided by 16."""
    return _limits_of(problem if problem.m <= 16 else problem.with_rows(16 + problem.m % 16))


@lru_cache(maxsize=1024)
def _limits_of(problem: Problem) -> tuple[Limits, int]:
    operands = operands_of(problem)
    limits = Limits(
        operands.mn_major,
        most_accumulators(problem),
        problem.out.dtype.nbytes,
        isinstance(operands.out, tma.TmaTensor),
        scattered(problem),
        splits=not problem.batch_invariant,
        multiple_n=multiple_n(problem),
        keeps_columns=problem.epilogue.keeps_columns,
        input_bytes=problem.a.dtype.nbytes,
        promotion=promotion(problem),
        whole_sums=problem.a.dtype is int8,
        scaled_columns=scaled_columns(problem.recipe),
        stacked=problem.epilogue.is_stacked,
        finish=finish(problem),
    )
    return limits, row_bytes(problem)


@cache
def _compiled(config: WgmmaConfig) -> WgmmaConfig:
    return replace(config, group_m=1, prefetch=0)


def _cluster_tiles(tile: WgmmaConstants, problem: Problem) -> int:
    """Tiles of whole clusters that cover out, batches included."""
    rows, columns = tile.tile_m * tile.cluster_m, tile.tile_n * tile.cluster_n
    return ceil_div(problem.m, rows) * ceil_div(problem.n, columns) * problem.batch_count
