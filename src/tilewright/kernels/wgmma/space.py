"""The Configs that `wgmma` chooses from: its legal tilings, and what follows from them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import Hardware
from tilewright.kernels import tma
from tilewright.kernels.wgmma.config import (
    SPAN,
    SPAN_BYTES,
    Ring,
    WgmmaConfig,
    has_two_scales,
    promoted_registers,
    ring_of,
)
from tilewright.kernels.wgmma.tilings import Tiling, tilings
from tilewright.model.cost import Prepared
from tilewright.model.prediction import Power, prepare_in
from tilewright.model.ranking.ranking import Ranking
from tilewright.model.tiling.tiles import Promotion, Tiles
from tilewright.rounding import ceil_div, round_up

MOST_STAGES = 12
"""More were measured to bring nothing."""

AHEAD = ((16, 8, 4), (64, 8, 0), (128, 4, 0))
"""Where an operand is read once, to be multiplied with up to so many rows, its spans that come to L2 ahead of the ring:
by CTAs with one tile, and by those with several. With more rows, they delay what is needed first."""

LOWER = 0.8
"""Times the height of bands in which a wave is as high as wide, without clusters: SMs side by side then have CTAs that
follow each other, and L2 answers those that ask for the same columns of B at once (docs/performance-log.md)."""

ROOM = 176
"""Sums of a thread beside which it has registers for an epilogue; with more, it keeps some values in memory."""

LEAST_RING = (150 * 1024, 176 * 1024)
"""Bytes of a ring that may have fewer stages for boxes of out, and of one where an operand is read once and memory
limits."""

LISTED = 24
"""How many Configs are listed for a problem."""

NEAR = 1.03
"""Times that the model predicts, in each other's terms, below which it does not tell tilings apart."""


_VARIATIONS: tuple[dict[str, Any], ...] = (
    *({"group_m": group_m} for group_m in (1, 2, 4, 8, 16, 32)),
    *({"prefetch": prefetch} for prefetch in (0, 4, 8, 16)),
    {"overlap": False, "epilogue": "direct", "wait_depth": 1},
    {"overlap": True, "epilogue": "direct", "wait_depth": 0},
    {"overlap": True, "epilogue": "direct", "wait_depth": 1},
    {"overlap": True, "epilogue": "tma", "wait_depth": 0},
    {"overlap": False, "epilogue": "tma", "wait_depth": 1},
)
"""What the model does not see of a Config: a tuner tries these."""


class Limits(NamedTuple):
    """What of a problem limits the space.

    mn_major: whether A and B are. most: accumulators of a thread that the epilogue's code is unrolled over, as the
    problem stands and swapped. output_bytes, out_by_tma: of out's elements, and whether TMA can store it. scattered:
    whether out is stored element by element, as the problem stands and swapped. splits: whether CTAs may each sum a
    part of k, which rounds otherwise than one sum does. multiple_n: of which tile_n is one, more than 8 with a gate.
    keeps_columns: whether the transposed product is another one. input_bytes: of A's and B's elements. promotion: how
    products leave the tensor cores after every k-block, of 128, if they do. whole_sums: if sums are of int32.
    scaled_columns: as in EpilogueConstants. stacked: whether half of a tile's columns come from each half of b.
    finish: instructions between a sum and what is stored of it, where a thread has up to ROOM sums, and where more.
    """

    mn_major: tuple[bool, bool]
    most: tuple[int, int]
    output_bytes: int
    out_by_tma: bool
    scattered: tuple[bool, bool] = (False, False)
    splits: bool = True
    multiple_n: int = 8
    keeps_columns: bool = False
    input_bytes: int = 2
    promotion: Promotion | None = None
    whole_sums: bool = False
    scaled_columns: int = 0
    stacked: bool = False
    finish: tuple[float, float] = (0.0, 0.0)

    @property
    def gated(self) -> bool:
        """Whether two columns of sums make one of out."""
        return self.multiple_n > 8

    @property
    def out_bytes(self) -> float:
        """Bytes of out for a sum."""
        return self.output_bytes / (1 + self.gated)


class Space:
    """The legal tilings of problems with the same limits on one GPU, with what of their times can be known before."""

    def __init__(self, limits: Limits, dtype: DType, hardware: Hardware):
        self._limits, self._hardware = limits, hardware
        plain = {tiling: _plain(tiling) for tiling in tilings(limits.input_bytes)}
        legal = {tiling: config for tiling, config in plain.items() if self._is_legal(config)}
        self.tilings = list(legal)
        self._indices = {tiling: index for index, tiling in enumerate(self.tilings)}
        rings = [self._ring_beside_boxes(config) for config in legal.values()]
        self._by_tma = [[ring >= least for ring in rings] for least in LEAST_RING]
        tiles = tiles_of(
            list(legal.values()),
            hardware,
            limits.mn_major,
            limits.scattered,
            limits.promotion,
            limits.finish,
            limits.out_bytes,
        )
        # Who stores matters where power limits, and not memory.
        self.ranking = Ranking(tiles._replace(by_tma=np.array(self._by_tma[False])), "wgmma", dtype, hardware)

    def _is_legal(self, config: WgmmaConfig) -> bool:
        if config.split_k > 1 and not self._limits.splits:
            return False
        if config.cluster_m * config.cluster_n * config.split_k > self._hardware.sm_count:
            return False
        if config.thread_sums > self._limits.most[config.swap_ab]:
            return False
        if self._limits.promotion and (config.ping_pong or not self._promotes(config)):
            return False
        if self._limits.whole_sums and config.tile_n > 32 and config.tile_n % 16:
            return False
        if config.tile_n % self._limits.multiple_n or (self._limits.gated and config.split_k > 1):
            return False
        if self._limits.keeps_columns and config.swap_ab:
            return False
        return self._stages(config) >= 2

    def _ring_beside_boxes(self, config: WgmmaConfig) -> float:
        """Bytes of a Config's ring if TMA stores out, infinite if it has all stages, and 0 where TMA is not quicker.

        Boxes of 32 columns took up to 13% longer than stores from registers, but for 224 columns.
        """
        limits, columns = self._limits, config.tile_n // (1 + self._limits.gated)
        if limits.output_bytes != 2 or not limits.out_by_tma or config.swap_ab or config.split_k > 1:
            return 0
        if config.ping_pong and (config.cluster_m == 1 or config.tile_n % 64):
            return 0
        if columns < 64 or (columns % 64 == 32 and columns != 224):
            return 0
        ring = self._ring(replace(config, epilogue="tma"))
        stages = self._fitting(ring)
        return inf if stages == self._stages(config) else stages * (ring.a_bytes + ring.b_bytes)

    def _promotes(self, config: WgmmaConfig) -> bool:
        """Whether a k-block is one of those after which sums are promoted, and threads have registers for both."""
        tile_n, columns = config.tile_n, self._limits.scaled_columns
        if config.tile_k != 128 or (columns == 128 and not has_two_scales(tile_n, self._limits.stacked)):
            return False
        registers = config.thread_sums + promoted_registers(config.row_blocks, tile_n, columns, config.wait_depth)
        return registers <= (96 if config.consumers == 3 else 208)

    def _holds(self, tiling: Tiling) -> bool:
        """Whether a consumer with scales of columns also has registers for a row block that is held back."""
        return self._limits.scaled_columns != 1 or tiling.tile_m < 256 or tiling.tile_n < 104

    def _ring(self, config: WgmmaConfig) -> Ring:
        a, b = self._limits.mn_major
        major = (b, a) if config.swap_ab else (a, b)
        return ring_of(config, *major, self._limits.input_bytes, self._limits.scaled_columns, self._limits.gated)

    def _stages(self, config: WgmmaConfig) -> int:
        return self._fitting(self._ring(config))

    def _fitting(self, ring: Ring) -> int:
        """As many stages as fit; 0 if that is fewer than 2."""
        stages = tma.ring_stages(self._hardware.smem_bytes, ring.a_bytes + ring.b_bytes, ring.beside_bytes)
        return min(stages, MOST_STAGES) if stages >= 2 else 0

    def index(self, config: WgmmaConfig) -> int | None:
        """That of a Config's tiling; None if it is none of these."""
        return self._indices.get(Tiling(*(getattr(config, name) for name in Tiling._fields)))

    def is_near_best(self, config: WgmmaConfig, m: int, n: int, k: int, batch_count: int, row_bytes: int) -> bool:
        """Whether a Config's tiling takes at most NEAR times the least time; others than these tilings never do."""
        index = self.index(config)
        if index is None:
            return False
        times = self.ranking.times(m, n, k, batch_count, row_bytes)
        return bool(times[index] <= NEAR * times.min())

    def variants(self, config: WgmmaConfig) -> list[WgmmaConfig]:
        """What a Config becomes with each of _VARIATIONS, where it changes."""
        varied = (self.with_most_stages(replace(config, **change)) for change in _VARIATIONS)
        return [each for each in dict.fromkeys(varied) if each != config]

    def config(self, index: int, m: int, n: int, batch_count: int) -> WgmmaConfig:
        """The Config of a tiling for a problem: what follows from how many tiles there are."""
        tiling = self.tilings[index]
        if tiling.swap_ab:
            m, n = n, m
        tiles_m = ceil_div(m, tiling.tile_m * tiling.cluster_m)
        tiles_n = ceil_div(n, tiling.tile_n * tiling.cluster_n)
        size = tiling.cluster_m * tiling.cluster_n * tiling.split_k
        at_once = self._hardware.clusters(size)
        waits = tiles_m * tiles_n * batch_count > at_once
        several = waits and tiling.split_k == 1
        # Few columns are all walked while their rows are at hand. Clusters that share B follow each other along a row
        # of tiles if all work at once: L2 answers those that ask for the same rows of A at once.
        along_rows = (tiles_n <= 8 and tiles_n < tiles_m) or (tiling.cluster_m > 1 and not waits)
        shape = tiling.tile_n * tiling.cluster_n / (tiling.tile_m * tiling.cluster_m)
        if size == 1:
            shape *= LOWER**2
        group_m = 1 if along_rows else _band_height(tiles_m, at_once * shape)
        once = [extent for extent, tiles in ((m, tiles_m), (n, tiles_n)) if tiles == 1]
        spans = _spans_ahead(min(once), several) if once else 0
        prefetch = spans * SPAN_BYTES // (tiling.tile_k * self._limits.input_bytes)
        return self._config(index, several, bool(once), group_m, prefetch)

    @lru_cache(maxsize=4096)  # noqa: B019 (spaces are few and kept)
    def _config(self, index: int, several: bool, once: bool, group_m: int, prefetch: int) -> WgmmaConfig:
        tiling, limits = self.tilings[index], self._limits
        overlap = several and limits.output_bytes <= 2 and self._holds(tiling) and not tiling.ping_pong
        by_tma = self._by_tma[once][index] and (overlap or tiling.ping_pong)
        config = WgmmaConfig(
            tiling.tile_m,
            tiling.tile_n,
            2,
            cluster_m=tiling.cluster_m,
            cluster_n=tiling.cluster_n,
            group_m=group_m,
            epilogue="tma" if by_tma else "direct",
            overlap=overlap,
            wait_depth=0 if overlap or limits.promotion else 1,
            tile_k=tiling.tile_k,
            split_k=tiling.split_k,
            swap_ab=tiling.swap_ab,
            prefetch=prefetch,
            ping_pong=tiling.ping_pong,
        )
        return self.with_most_stages(config)

    def with_most_stages(self, config: WgmmaConfig) -> WgmmaConfig:
        """A Config with as many stages as fit; with its own if none do."""
        return replace(config, stages=self._stages(config) or config.stages)


def _spans_ahead(rows: int, several: bool) -> int:
    """What AHEAD says for so many rows."""
    return next((of[several] for most, *of in AHEAD if rows <= most), 0)


def _band_height(tiles_m: int, wave: float) -> int:
    """The height of bands, equal but for rounding, in which a wave reads the fewest rows and columns.

    It is then about as high as wide. wave: its tiles, times the width of a tile over its height.
    """
    bands = max(1, round(tiles_m / min(32.0, sqrt(wave))))
    return ceil_div(tiles_m, bands)


def tiles_of(
    configs: Sequence[WgmmaConfig],
    hardware: Hardware,
    mn_major: tuple[bool, bool] = (False, False),
    scattered: tuple[bool, bool] = (False, False),
    promotion: Promotion | None = None,
    finish: tuple[float, float] = (0.0, 0.0),
    out_bytes: float = 2,
) -> Tiles:
    """The Configs as the model of times sees them; for the others, see Limits."""
    fields = [[getattr(config, name) for config in configs] for name in Tiles._fields[:7]]
    at_once = [hardware.clusters(config.cluster_m * config.cluster_n * config.split_k) for config in configs]
    rows_m = [round_up(config.tile_m, SPAN) if mn_major[config.swap_ab] else config.tile_m for config in configs]
    rows_n = [round_up(config.tile_n, SPAN) if mn_major[not config.swap_ab] else config.tile_n for config in configs]
    numbers = np.array([*fields, at_once, rows_m, rows_n], np.float64)
    choices = [
        (config.swap_ab, scattered[config.swap_ab], config.ping_pong, config.epilogue == "tma") for config in configs
    ]
    finished = np.array([finish[config.thread_sums > ROOM] for config in configs])
    tiles = Tiles(*numbers, *np.array(choices, bool).T)
    return tiles._replace(promotion=promotion, finish=finished, out_bytes=out_bytes)


@lru_cache(maxsize=256)
def prepared_of(
    config: WgmmaConfig,
    mn_major: tuple[bool, bool],
    scattered: tuple[bool, bool],
    promotion: Promotion | None,
    finish: tuple[float, float],
    out_bytes: float,
    short: bool,
    shifted: bool,
    power: Power,
    dtype: DType,
    hardware: Hardware,
) -> Prepared:
    """What the prediction of a Config's times begins with, kept; for the others, see Limits and `prepare_in`."""
    tiles = tiles_of([config], hardware, mn_major, scattered, promotion, finish, out_bytes)
    return prepare_in(power, tiles, "wgmma", dtype, hardware, short=short, shifted=shifted)


@lru_cache(maxsize=256)
def space(limits: Limits, dtype: DType, hardware: Hardware) -> Space:
    """The Space of problems with these limits, kept."""
    return Space(limits, dtype, hardware)


def _plain(tiling: Tiling) -> WgmmaConfig:
    """A tiling's Config without staging, of the fewest stages."""
    return WgmmaConfig(
        tiling.tile_m,
        tiling.tile_n,
        2,
        cluster_m=tiling.cluster_m,
        cluster_n=tiling.cluster_n,
        epilogue="direct",
        overlap=not tiling.ping_pong,
        tile_k=tiling.tile_k,
        split_k=tiling.split_k,
        swap_ab=tiling.swap_ab,
        ping_pong=tiling.ping_pong,
    )
