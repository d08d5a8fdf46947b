"""The predicted time of one product by the model that ranks Configs, for a GPU in a power state."""

from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from tilewright.hardware import Hardware, Unit
from tilewright.model.cost import STREAMED, Tiles, costs_of, prepare, times
from tilewright.problem import Problem

Power = Literal["settled", "recorded", "burst"]
"""The power state: at the power limit with settled clocks, as in the record of calibration, or right after idle."""

_POWER = {"settled": 0.9, "recorded": 1.0, "burst": 1.09}
"""Times `Costs.power`: cuBLAS in 128x256 tiles on an H200 at 700 W with random data (tests/host/test_model.py).

Zeros run 24% faster (results/power_h200.json). Hopper boards with another limit, such as H100-PCIe, get the same
figures.
"""


class Prediction(NamedTuple):
    """The predicted time of a product.

    tile_count, waves: the number of tiles, those beyond out that fill clusters included, and of rounds.
    quantization: the share of multiply-adds that belong to the product. The rest pads tiles, or is lost to SMs that
    idle in the last wave.
    """

    tile_count: int
    waves: int
    quantization: float
    seconds: float
    flops: int

    @property
    def tflops(self) -> float:
        """The rate that follows from `seconds`, in 10^12 floating-point operations per second."""
        return self.flops / self.seconds / 1e12


def predict(
    problem: Problem, tiles: Tiles, unit: Unit, gpu: Hardware, row_bytes: int = 128, power: Power = "settled"
) -> Prediction:
    """The time of `problem`, cut in the one way of `tiles`; row_bytes: as in `times`.

    It is that of `times`, or what DRAM takes at least for each operand once.
    """
    costs, batch_count = costs_of(unit, problem.a.dtype, gpu), problem.batch_count
    prepared = prepare(tiles, unit, problem.a.dtype, gpu, costs._replace(power=costs.power * _POWER[power]))
    us = times(prepared, problem.m, problem.n, problem.k, batch_count, row_bytes).item()
    streamed = problem.minimum_bytes / (STREAMED * gpu.memory_bandwidth / 1e6) + prepared.fixed.item() + costs.wave
    along_m, along_n = prepared.along
    clusters = (np.ceil(problem.m / along_m) * np.ceil(problem.n / along_n)).item() * batch_count
    waves = ceil(clusters / tiles.clusters_at_once.item())
    padded = waves * gpu.sm_count * (tiles.tile_m * tiles.tile_n / tiles.split_k).item()
    return Prediction(
        tile_count=int(clusters * (tiles.cluster_m * tiles.cluster_n * tiles.split_k).item()),
        waves=waves,
        quantization=problem.m * problem.n * batch_count / padded,
        seconds=max(us, streamed) / 1e6,
        flops=problem.flops,
    )
