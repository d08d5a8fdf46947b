"""Kernel `wgmma_unaligned`: wgmma for operands that TMA cannot address, which are read where they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tilewright.hardware import Hardware
from tilewright.kernels import tma
from tilewright.kernels.epilogue import EpilogueConstants, has_pairs
from tilewright.kernels.kernel import values_of
from tilewright.kernels.parameters import TensorMapSpec
from tilewright.kernels.refusal import Refusal
from tilewright.kernels.wgmma import HALVES_IN_PANELS, WgmmaConstants, WgmmaFeatures, WgmmaKernel, b_rows, multiple_n
from tilewright.kernels.wgmma_config import SPAN, WARPGROUP, WgmmaConfig
from tilewright.kernels.wgmma_operands import Stores, most_accumulators, operands_of, stored_singly
from tilewright.kernels.wgmma_space import tiles_of
from tilewright.model.cost import Tiles, costs_of, prepare, times
from tilewright.model.prediction import Power, Prediction, predict
from tilewright.problem import Problem
from tilewright.rounding import ceil_div

PRODUCER_WARPS = 4

CHUNK_BYTES = 16

MOST_STAGES = 8


@dataclass(frozen=True, slots=True)
class UnalignedConfig:
    """The Config of `wgmma_unaligned`.

    A CTA makes one (`tile_m`, `tile_n`) tile of out at a time through a ring of `stages` k-blocks of 64, of which two
    are ready and the others on their way. CTAs walk out in bands of `group_m` tile rows. A cluster is `split_k` CTAs
    that make one tile, each the sum over a part of k.

    With `swap_ab` the kernel computes out.T = b.T @ a.T; tile_m then counts columns of out.
    """

    tile_m: int = 128
    tile_n: int = 128
    stages: int = 5
    group_m: int = 8
    split_k: int = 1
    swap_ab: bool = False

    @property
    def prefetch(self) -> int:
        """Nothing is brought to L2 ahead."""
        return 0

    @property
    def wgmma(self) -> WgmmaConfig:
        """The Config of `wgmma` with this tile."""
        return WgmmaConfig(
            self.tile_m,
            self.tile_n,
            self.stages,
            group_m=self.group_m,
            epilogue="direct",
            overlap=False,
            split_k=self.split_k,
            swap_ab=self.swap_ab,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnalignedConstants(WgmmaConstants):
    """The Constants of `wgmma_unaligned`: those of `wgmma`, and which operands are read by rows.

    row_ends: rows of a slot that are read so, of which 16 bytes each are kept beside it. tma_bytes: what TMA brings for
    a slot. fill_arrivals: those that make a slot full. in_flight: k-blocks that are on their way.
    """

    a_by_rows: bool
    b_by_rows: bool
    row_ends: int
    tma_bytes: int
    fill_arrivals: int
    in_flight: int
    producer_warps: int


class UnalignedFeatures(NamedTuple):
    """The compiled-in features of a Problem: those of `wgmma`, and which operands are read by rows."""

    wgmma: WgmmaFeatures
    a_by_rows: bool
    b_by_rows: bool


class UnalignedKernel(WgmmaKernel):
    """The kernel of products with an operand that TMA cannot address."""

    name = "wgmma_unaligned"
    summary = "wgmma with threads that read rows of any stride where they are and shift them; bf16 and fp16"
    config_type = UnalignedConfig
    header = "kernels/wgmma_unaligned.cuh"
    rules = (
        ("tile_m == 64 or tile_m == 128", "each of up to two consumer warpgroups takes 64 rows: make tile_m 64 or 128"),
        (
            "tile_n >= 8 and tile_n <= 256 and tile_n % (8 * split_k) == 0",
            "wgmma multiplies 8, 16, ... 256 columns, and each CTA that splits k stores its own by eights",
        ),
        (
            "split_k == 1 or split_k == 2 or split_k == 4",
            "up to four CTAs split k: take 1, 2 or 4",
        ),
        ("stages >= 3 and stages <= 32", "two k-blocks are ready and others on their way: take 3 to 32 stages"),
        ("out_columns % 8 == 0", "out is stored in blocks of 8 columns: with a gate, make tile_n a multiple of 16"),
        HALVES_IN_PANELS,
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `wgmma_unaligned` does not take the problem: as of `wgmma`, or both strides of an operand."""
        refusal = super().refuses(problem, hardware)
        if refusal is None or not refusal.avoidable:
            return refusal
        if problem.epilogue.is_stacked and self._by_rows(problem)[1]:
            return Refusal("b is read by rows, and gate='stacked' takes pairs of its columns by TMA", "b")
        return next((rows for rows in self._rows(problem) if isinstance(rows, Refusal)), None)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The quickest by the model, the best first."""
        return self.candidates(problem, hardware, 24)

    def candidates(self, problem: Problem, hardware: Hardware, most: int) -> Sequence[Any]:
        """Any number of those."""
        configs = list(self._offered(problem, hardware))
        us = self._times(configs, problem, hardware)
        return [configs[index] for index in us.argsort(kind="stable")[:most] if np.isfinite(us[index])]

    def best(self, problem: Problem, hardware: Hardware) -> Any:
        """The first of `configs`."""
        return self.candidates(problem, hardware, 1)[0]

    def variants(self, config: Any, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """None."""
        return ()

    def is_near_best(self, config: Any, problem: Problem, hardware: Hardware) -> bool:
        """Not known."""
        return False

    def predict(self, config: Any, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction:
        """The time that the model gives a Config."""
        return predict(problem, self._tiles([config], problem, hardware), self.unit, hardware, 128, power)

    def _times(self, configs: Sequence[UnalignedConfig], problem: Problem, hardware: Hardware) -> Any:
        tiles, dtype = self._tiles(configs, problem, hardware), problem.a.dtype
        prepared = prepare(tiles, self.unit, dtype, hardware, costs_of(self.unit, dtype, hardware))
        return times(prepared, problem.m, problem.n, problem.k, problem.batch_count)

    def _tiles(self, configs: Sequence[UnalignedConfig], problem: Problem, hardware: Hardware) -> Tiles:
        a_mn_major, b_mn_major = self._mn_major(problem)
        return tiles_of(
            [config.wgmma for config in configs], hardware, (a_mn_major, b_mn_major), stored_singly(problem)
        )

    def _offered(self, problem: Problem, hardware: Hardware) -> Iterator[UnalignedConfig]:
        """The legal tilings with as many stages as fit."""
        most, multiple, gated = most_accumulators(problem), multiple_n(problem), problem.columns != problem.n
        splits = (1,) if problem.batch_invariant or gated else (1, 2, 4)
        sizes = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256)
        swaps = (False,) if problem.epilogue.keeps_columns else (False, True)
        for swap_ab, tile_m, tile_n, split_k in product(swaps, (64, 128), sizes, splits):
            if tile_n // 2 > most[swap_ab] or tile_n % (8 * split_k) or tile_n % multiple:
                continue
            if ceil_div(problem.k, SPAN) < split_k or split_k > hardware.sm_count:
                continue
            config = UnalignedConfig(tile_m, tile_n, 3, 8, split_k, swap_ab)
            features = self.features(self.oriented(config, problem))
            ends = 16 * self.derive(config, features).row_ends
            for stages in range(MOST_STAGES, 2, -1):
                config = UnalignedConfig(tile_m, tile_n, stages, 8, split_k, swap_ab)
                if self.derive(config, features).smem_bytes <= hardware.smem_bytes and ends:
                    yield config
                    break

    def features(self, problem: Problem) -> Any:
        """The storage of A and B, the ways to write out, and the epilogue."""
        n = problem.n
        features = WgmmaFeatures(
            problem.layout,
            problem.a.dtype,
            *self._mn_major(problem),
            out_by_tma=False,
            stores=Stores.of(problem.out, problem.m, problem.columns),
            c_pairs=has_pairs(problem.epilogue.c, n),
            bias_pairs=has_pairs(problem.epilogue.bias, n),
            epilogue=EpilogueConstants.of(problem, halves=True),
        )
        return UnalignedFeatures(features, *self._by_rows(problem))

    def derive(self, config: Any, features: Any) -> UnalignedConstants:
        """The Config's fields, the layouts of A and B in memory, and the sizes that follow."""
        base = super().derive(config.wgmma, features.wgmma)
        values = {field.name: getattr(base, field.name) for field in fields(base)}
        a_rows = base.a_bytes // (2 * SPAN) if features.a_by_rows else 0
        b_rows = base.b_bytes // (2 * SPAN) if features.b_by_rows else 0
        tma_bytes = base.stage_bytes - 2 * SPAN * (a_rows + b_rows)
        ends = CHUNK_BYTES * (a_rows + b_rows)
        beside = base.sum_bytes + (8 if config.split_k > 1 else 0)
        values |= {
            "threads": WARPGROUP * config.wgmma.consumers + 32 * PRODUCER_WARPS,
            "smem_bytes": tma.ring_bytes(config.stages, base.stage_bytes + ends, beside),
            "moves_registers": config.wgmma.consumers > 1,
            "producer_registers": 104,
            "consumer_registers": 200,
        }
        return UnalignedConstants(
            **values,
            a_by_rows=features.a_by_rows,
            b_by_rows=features.b_by_rows,
            row_ends=a_rows + b_rows,
            tma_bytes=tma_bytes,
            fill_arrivals=PRODUCER_WARPS + (tma_bytes > 0),
            in_flight=config.stages - 2,
            producer_warps=PRODUCER_WARPS,
        )

    def tensor_maps(self, constants: Any, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The map of the operand that TMA addresses, if there is one."""
        operands = operands_of(problem)
        others = (
            (operands.a, constants.tile_m, constants.a_by_rows),
            (operands.b, b_rows(constants), constants.b_by_rows),
        )
        maps = []
        for factor, tile, by_rows in others:
            if isinstance(factor, tma.TmaFactor) and not by_rows:
                maps.append(factor.tensor.map(64, SPAN if factor.mn_major else tile))
        return tuple(maps)

    def compiled(self, config: Any) -> Any:
        """The Config without `group_m`, which is an argument of a launch."""
        return UnalignedConfig(**(values_of(config) | {"group_m": 1}))

    def _rows(self, problem: Problem) -> tuple[bool | Refusal, bool | Refusal]:
        """How the rows of A and of B lie in memory."""
        m, n, k = problem.m, problem.n, problem.k
        return tma.rows_of("a", problem.a, m, k, "column"), tma.rows_of("b", problem.b, n, k, "row")

    def _by_rows(self, problem: Problem) -> tuple[bool, bool]:
        """Whether A and B are read by rows: what TMA cannot address, and A if that is nothing."""
        operands = operands_of(problem)
        b = isinstance(operands.b, Refusal)
        return isinstance(operands.a, Refusal) or not b, b

    def _mn_major(self, problem: Problem) -> tuple[bool, bool]:
        """Whether A and B are MN-major."""
        operands = operands_of(problem)
        a, b = (
            factor.mn_major if isinstance(factor, tma.TmaFactor) else rows is True
            for factor, rows in zip((operands.a, operands.b), self._rows(problem), strict=True)
        )
        return a, b
