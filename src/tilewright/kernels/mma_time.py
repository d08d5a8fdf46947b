"""The time that `mma` takes with a Config: that of the model, and what accesses of single elements add."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import Hardware
from tilewright.kernels.tiled import tile_count
from tilewright.model.cost import Prepared
from tilewright.model.prediction import Breakdown, Power, at_least, prepare_in, serial_launch_seconds
from tilewright.model.ranking.ranking import Ranking
from tilewright.model.tiling.tiles import Tiles
from tilewright.problem import Problem
from tilewright.rounding import ceil_div

_GATHERED = {1: 0.51e-6, 2: 0.65e-6, 4: 0.41e-6, 8: 0.34e-6}
"""The time in which an SM gathers 64 rows of A and of B along 32 of k, by the bytes of a copy.

It and what follows were fitted to launches of results/narrow*_h100.json, and miss the 471 that these have now by 9% on
average.
"""

_AT_ONCE = 1.3
"""How many times such rows an SM gathers at least in one latency."""

_BEGUN, _STORED = 0.95e-6, 0.154e-6
"""The time of an overlapped launch without these, and that in which an SM stores 1024 results behind narrow copies."""


def times(
    configs: tuple[Any, ...], problem: Problem, hardware: Hardware, narrowest: int
) -> list[tuple[float, float, Any]]:
    """The seconds of each Config, those without memory's, and it, the quickest first.

    narrowest: the bytes of the narrowest copies.
    """
    ranking = _ranking(configs, problem.a.dtype, hardware)
    us = ranking.times(problem.m, problem.n, problem.k, problem.batch_count)
    longer = np.maximum(us, at_least(problem, ranking.prepared, hardware)) / 1e6
    ways = zip(longer.tolist(), us.tolist(), configs, strict=True)
    found = [
        (max(seconds, sum(narrow_seconds(config, problem, hardware, narrowest))), alone, config)
        for seconds, alone, config in ways
    ]
    return sorted(found, key=lambda each: each[:2])


def narrow_seconds(config: Any, problem: Problem, hardware: Hardware, narrowest: int) -> tuple[float, float]:
    """What a launch takes before it gathers elements, and for these and results behind them; zeros if copies are wide.

    narrowest: the bytes of the narrowest copies.
    """
    if narrowest == 16:
        return 0.0, 0.0
    tiles = max(1.0, tile_count(config, problem) / hardware.sm_count)  # of an SM
    if narrowest < 4 or config.threads > 128:  # else three CTAs share an SM, and their copies overlap
        tiles = ceil(tiles)
    steps = ceil_div(problem.k, config.tile_k) * config.tile_k / 32
    rows = max(_AT_ONCE, tiles * (config.tile_m + config.tile_n) / 128)
    results = tiles * min(config.tile_m, problem.m) * min(config.tile_n, problem.n) / 1024
    begun = _BEGUN + serial_launch_seconds(hardware)
    return begun, _GATHERED[narrowest] * steps * rows + _STORED * results


def with_narrow(found: Breakdown, begun: float, accessed: float) -> Breakdown:
    """A Breakdown with what `narrow_seconds` says."""
    if accessed == 0:
        return found
    looped = found.parts.main_loop + max(0.0, begun + accessed - sum(found.parts))
    limits = {**found.limits, "accesses of single elements": min(accessed, looped + found.parts.tail)}
    return found._replace(parts=found.parts._replace(main_loop=looped), limits=limits)


@lru_cache(maxsize=256)
def _ranking(configs: tuple[Any, ...], dtype: DType, hardware: Hardware) -> Ranking:
    return Ranking(_tiles_of(configs, hardware), "mma", dtype, hardware)


@lru_cache(maxsize=256)
def prepared(config: Any, power: Power, dtype: DType, hardware: Hardware) -> Prepared:
    """What the model needs of a Config in a power state."""
    return prepare_in(power, _tiles_of((config,), hardware), "mma", dtype, hardware)


def _tiles_of(configs: Sequence[Any], hardware: Hardware) -> Tiles:
    """Configs as the model sees them: each CTA on an SM of its own, and k counted by elements."""
    tile_m, tile_n = np.array([(config.tile_m, config.tile_n) for config in configs], np.float64).T
    one = np.ones_like(tile_m)
    no = one < 1
    at_once = one * hardware.sm_count
    return Tiles(tile_m, tile_n, one, one, one, one, one, at_once, tile_m, tile_n, no, no, no, no)
