"""The choices of the planner, and the thresholds of a published tree beside measurements, for docs/choosing.md.

readme_numbers.py writes them. The measurements are those of results/calibration_h200.json.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import choice_shares  # noqa: E402

from tilewright.dtypes import bf16  # noqa: E402
from tilewright.hardware import H200  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.wgmma.config import WgmmaConfig  # noqa: E402
from tilewright.problem import Matrix, Problem  # noqa: E402

PAGE = "docs/choosing.md"
RECORD = ROOT / "results" / "calibration_h200.json"
WEIGHTS = ((4096, 4096), (12288, 4096), (4096, 11008))
ROWS = (1, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)


class Best(NamedTuple):
    """The quickest Config that was measured of a product, and times: with and without a property, and cuBLAS's."""

    m: int
    n: int
    k: int
    launches: dict[WgmmaConfig, float]
    cublas: float

    def least(self, having: Callable[[WgmmaConfig], bool]) -> float:
        """The least time in us of the Configs that have a property; infinite if none was measured."""
        return min((us for config, us in self.launches.items() if having(config)), default=math.inf)


def choices() -> list[str]:
    """What the planner chooses on an H200 for a linear layer's products, by the number of rows."""
    lines = [
        "| m | " + " | ".join(f"n, k = {n}, {k}" for n, k in WEIGHTS) + " |",
        "|---" * (len(WEIGHTS) + 1) + "|",
    ]
    for m in ROWS:
        lines.append(f"| {m} | " + " | ".join(_said(_choice(m, n, k)) for n, k in WEIGHTS) + " |")
    return lines


def page() -> list[str]:
    """All tables."""
    shares = [
        "In each product of a record, the model picks one of the Configs that were measured of it; this is the picked "
        "one's rate over the best one's (`python tools/choice_shares.py`).",
        "",
        *choice_shares.table(),
    ]
    return [*choices(), "", *thresholds(), "", f"Measured: results/{RECORD.name}.", "", *shares]


def thresholds() -> list[str]:
    """What the measured products say of the thresholds."""
    measured = list(_measured())
    thin = [each for each in measured if min(each.m, each.n) < 64]
    wide = [each for each in measured if min(each.m, each.n) >= 256]
    long = [each for each in measured if each.k > 4 * min(each.m, each.n)]
    short = [each for each in measured if each.k <= 4 * min(each.m, each.n)]
    one = [each for each in measured if each.m == 1]

    def gain(products: list[Best], having: Callable[[WgmmaConfig], bool]) -> str:
        ratios = [each.least(lambda config: not having(config)) / each.least(having) for each in products]
        known = [ratio for ratio in ratios if 0 < ratio < math.inf]
        mean = math.exp(sum(map(math.log, known)) / len(known))
        wins = sum(ratio > 1.01 for ratio in known)
        return f"{mean:.2f} times as quick, and quicker in {wins} of {len(known)} products"

    def split(config: WgmmaConfig) -> bool:
        return config.split_k > 1

    def swapped(config: WgmmaConfig) -> bool:
        return config.swap_ab

    def small(config: WgmmaConfig) -> bool:
        return config.tile_m * config.tile_n <= 128 * 64

    rates = [each.cublas / min(each.launches.values()) for each in one]
    row = math.exp(sum(map(math.log, rates)) / len(rates))
    beyond = "below the threshold", "with both extents from 256 on"
    return [
        "| the tree | how much quicker the best Config with the property is than the best one without it |",
        "|---|---|",
        f"| m = 1: a GEMV | `wgmma` is {row:.2f} times as quick as cuBLAS ({len(one)} products); `gemv` came later. |",
        f"| min(m, n) < 64: a thin kernel | Tiles of at most 128x64: {gain(thin, small)} {beyond[0]}; "
        f"{gain(wide, small)} {beyond[1]}. |",
        f"| | `swap_ab`: {gain(thin, swapped)} {beyond[0]}; {gain(wide, swapped)} {beyond[1]}. |",
        f"| k > 4 min(m, n): stream-K | `split_k`: {gain(long, split)} beyond the threshold; {gain(short, split)} "
        f"below it. |",
    ]


def _choice(m: int, n: int, k: int) -> Any:
    problem = Problem(m, n, k, Matrix(bf16, k, 1), Matrix(bf16, 1, k), Matrix(bf16, n, 1))
    return KERNELS["wgmma"].best(problem, H200)


def _said(config: WgmmaConfig) -> str:
    words = [f"{config.tile_m}x{config.tile_n}"]
    if config.cluster_m * config.cluster_n > 1:
        words.append(f"cluster {config.cluster_m}x{config.cluster_n}")
    if config.split_k > 1:
        words.append(f"split_k {config.split_k}")
    if config.swap_ab:
        words.append("swapped")
    if config.ping_pong:
        words.append("by turns")
    return ", ".join(words)


def _measured() -> Iterator[Best]:
    record = json.loads(RECORD.read_text())
    names = record["columns"]["launches"][3:-1]
    for run in record["runs"]:
        launches: dict[tuple[int, int, int], dict[WgmmaConfig, float]] = {}
        for m, n, k, *fields, us in run["launches"]:
            config = WgmmaConfig(**dict(zip(names, fields, strict=True)))
            launches.setdefault((m, n, k), {})[config] = us
        for m, n, k, us in run["cublas"]:
            yield Best(m, n, k, launches[m, n, k], us)
