"""The predicted time of one product, its parts and its limits, for a GPU in a power state.

It is the model of `cost`. But the Costs there are for choosing: what they say of times is off by 13% where products are
random (median, of the Configs picked), mostly too quick. So times of `wgmma` have Costs of their own.
"""

from collections.abc import Mapping
from math import ceil, inf
from typing import Literal, NamedTuple

import numpy as np

from tilewright.dtypes import DType
from tilewright.hardware import H200, Hardware, Unit
from tilewright.model.cost import COSTS, COSTS_OF_BYTES, COSTS_OF_SHORT, Costs, Prepared, fixed, found_of, prepare
from tilewright.model.tiling.tiles import Array, Tiles
from tilewright.problem import Problem

STREAMED = 0.93
"""Share of the data sheet's bandwidth that streaming reads reach: 4.23-4.57 of 4.8 TB/s on an H200."""

_IN_TURNS = Costs(*[0.0] * len(Costs._fields))._replace(
    multiply=1.0,
    misaligned=1.0,
    l2=inf,
    power=inf,
    dram_share=STREAMED,
    streamed=STREAMED,
    launch=2.5,
    store=inf,
)
"""The Costs of `mma` if its launches overlap, but for `clock` and `fill`, which depend on the GPU."""

_DELIVERY = 64
"""Multiply-adds of an SM in the time in which an element of A or B reaches it, as far as multiplying does not hide it.

It is fitted, and not a fact of a GPU.
"""

_PACE = 1.11
"""Clocks of a step of `mma` that pass in one clock of the data sheet, fitted along with _DELIVERY.

On an H200 1024^3, 4096^3 and 8192^3 took 12.7, 370 and 2766 us (results/ladder_*.json, bursts). GPUs before Hopper were
not measured.
"""

_MMA_ON_HOPPER = 0.63
"""Hopper's tensor cores take mma.sync at this share of wgmma's rate."""


def serial_launch_seconds(gpu: Hardware) -> float:
    """The seconds that a launch takes longer where it cannot overlap the one ahead (docs/performance-log.md)."""
    return 0.0 if gpu.launches_overlap else 0.5e-6


def costs_of(unit: Unit, dtype: DType, gpu: Hardware, short: bool = False) -> Costs:
    """The Costs of `wgmma` or `mma`, as the unit is, for elements of `dtype`; short: of products that `is_short`."""
    if unit == "wgmma":
        return COSTS_OF_SHORT if short else COSTS_OF_BYTES if dtype.nbytes == 1 else COSTS
    pace = _PACE * (_MMA_ON_HOPPER if gpu.capability == 90 else 1.0)
    return _IN_TURNS._replace(
        clock=gpu.clock(unit) / 1e6 * pace,
        fill=gpu.macs(unit, dtype) * dtype.nbytes / _DELIVERY,
        launch=_IN_TURNS.launch + serial_launch_seconds(gpu) * 1e6,
    )


Power = Literal["settled", "recorded", "burst"]
"""The power state: at the power limit with settled clocks, as in the record of calibration, or right after idle.

In the second one, times are those by which the planner ranks Configs.
"""

TIMES = Costs(
    multiply=1.03,
    smem=0.913,
    fill=inf,
    l2=102.0,
    misaligned=3.36,
    handover=182.4,
    handover_power=1.02,
    cluster=0.0,
    apart=0.0,
    outside=0.322,
    dram_share=0.946,
    streamed=STREAMED,
    again=0.192,
    power=878.0,
    delivery=16.9,
    two_blocks=0.9,
    launch=1.736,
    epilogue=0.6,
    exchange=2.72,
    wave=1.17,
    cluster_launch=0.279,
    scattered=2.71,
    promotion=50.0,
    finish=0.8,
    store=16.0,
    transposed=0.6,
    ragged=140.0,
    ahead=8.0,
)
"""The Costs of times of `wgmma`, fitted to those Configs that took at most a quarter longer than a product's best one,
in results/calibration_h200.json, sweep_h200.json and sweep_layouts_h200.json.

Fitted to every second product, they were within 10% for 67% of the others (median 7%) and within a quarter or 0.5 us
for 99%; `epilogue` was then fitted again by itself, since it counts what a CTA stores. `multiply` was not fitted, nor
was the speed of streaming. `promotion` is from sweep_blocks_near_*_h100.json; `finish` was measured at 8192x8192x1024
(docs/performance-log.md), and is less than what choices are best with. `store` and `ahead` are from
sweep_short_*_h200.json, `transposed` and `ragged` are those of choices. No suite was fitted to:
results/explain_accuracy.json has what they make of suites. `clock` is an H200's. `python tools/calibrate.py` with
`--fit-times` looks for better ones.
"""

SHIFTED = 0.9
"""us for 64x128 elements of a warpgroup whose rows begin anywhere, so that lanes exchange them before they are stored.

From 4096x4097x4096, 2048x50257x2048, 333x32001x4096, 1000x1001x1000 and 2047x2049x2048 (docs/performance-log.md).
"""

_POWER = {"settled": 0.9, "recorded": 1.0, "burst": 1.09}
"""Times `Costs.power`: cuBLAS in 128x256 tiles on an H200 at 700 W with random data (tests/host/test_model.py).

Zeros run 24% faster (results/power_h200.json). Hopper boards with another limit, such as H100-PCIe, get the same
figures.
"""


class Prediction(NamedTuple):
    """The predicted time of a product.

    tile_count, waves: the number of tiles, those beyond out that fill clusters included, each once for every CTA that
    sums a part of its k, and of rounds.
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


class Parts(NamedTuple):
    """Where a predicted time goes, in seconds; they add up to it.

    launch: until the kernel runs. prologue: until the first k-block is there. main_loop: if the tiles were spread
    evenly over the waves; tensor cores also wait there for functions and operands of the epilogue. tail: what a last
    wave that is not full adds. epilogue: of all waves, and the exchange of partial sums.
    """

    launch: float
    prologue: float
    main_loop: float
    tail: float
    epilogue: float


class Breakdown(NamedTuple):
    """Why a prediction is what it is.

    limits: the seconds that the main loop with its tail would take if one thing alone limited it, by name, and no more
    than it takes; power is among them only if it does. slots: the CTAs that work at once.
    """

    parts: Parts
    limits: Mapping[str, float]
    slots: int


_ALONE: dict[str, tuple[str, ...]] = {
    "tensor cores": ("multiply",),
    "reads of SMEM": ("smem",),
    "writes to SMEM": ("fill",),
    "L2": ("l2",),
    "handovers of slots": ("handover", "apart", "outside"),
    "promotion of sums": ("promotion",),
    "functions of the epilogue": ("finish",),
    "stores": ("store",),
    "GMEM": ("dram_share",),
    "power": ("power", "two_blocks"),
}
"""The Costs that make up each limit."""

_FREE = {"multiply": 0.0, "smem": 0.0, "fill": inf, "l2": inf, "handover": 0.0, "apart": 0.0, "outside": 0.0}
_FREE |= {"promotion": 0.0, "finish": 0.0, "store": inf, "dram_share": inf, "power": inf, "two_blocks": 0.0}
"""What these Costs are if nothing takes time."""


def prepare_in(
    power: Power, tiles: Tiles, unit: Unit, dtype: DType, gpu: Hardware, *, short: bool = False, shifted: bool = False
) -> Prepared:
    """As `prepare`, in a power state; short: as in `costs_of`; shifted: as in SHIFTED, which rankings do not know."""
    ranks = unit != "wgmma" or power == "recorded"
    costs = costs_of(unit, dtype, gpu, short)
    if not ranks:
        costs = TIMES._replace(clock=TIMES.clock * gpu.clock(unit) / H200.clock(unit))
        if shifted:
            costs, tiles = costs._replace(scattered=SHIFTED), tiles._replace(scattered=tiles.sharers > 0)
    return prepare(tiles, unit, dtype, gpu, costs._replace(power=costs.power * _POWER[power]))


def predict(problem: Problem, prepared: Prepared, gpu: Hardware, row_bytes: int = 128) -> Prediction:
    """The time of `problem`, cut in the one way that was prepared; row_bytes: as in `fixed`.

    It is that of `found_of`, or what DRAM takes at least for each operand once.
    """
    tiles = prepared.tiles
    clusters, waves = _clusters(prepared, problem)
    padded = waves * gpu.sm_count * (tiles.tile_m * tiles.tile_n / tiles.split_k).item()
    return Prediction(
        tile_count=int(clusters * (tiles.cluster_m * tiles.cluster_n * tiles.split_k).item()),
        waves=waves,
        quantization=problem.m * problem.n * problem.batch_count / padded,
        seconds=seconds_at_least(_us(prepared, problem, row_bytes), problem, prepared, gpu),
        flops=problem.flops,
    )


def seconds_at_least(us: float, problem: Problem, prepared: Prepared, gpu: Hardware, way: int = 0) -> float:
    """The time `us` of one of the ways, or what DRAM takes at least for each operand once."""
    return max(us, float(at_least(problem, prepared, gpu)[way])) / 1e6


def at_least(problem: Problem, prepared: Prepared, gpu: Hardware) -> Array:
    """The least us of each way: each operand crosses GMEM once, and a launch has what is fixed."""
    return _streamed(problem, prepared, gpu) + prepared.fixed


def breakdown(problem: Problem, prepared: Prepared, unit: Unit, gpu: Hardware, row_bytes: int = 128) -> Breakdown:
    """The Breakdown of what `predict` says for the same arguments.

    The prologue is the latency of GMEM, as far as it is published and no longer than what was fitted for it with the
    launch.
    """
    from tilewright.model.chips import CHIPS

    tiles, costs = prepared.tiles, prepared.costs
    clusters, waves = _clusters(prepared, problem)
    wave = fixed(prepared, problem.n, problem.k).wave
    own = prepared.fixed.item() + (waves - 1) * wave.item()  # of the launch and the epilogues
    looped = predict(problem, prepared, gpu, row_bytes).seconds * 1e6 - own
    limits = {}
    for name, fields in _ALONE.items():
        free = {field: value for field, value in _FREE.items() if field not in fields}
        alone = prepare(tiles, unit, problem.a.dtype, gpu, costs._replace(**free))
        limits[name] = _us(alone._replace(wave=0.0 * wave), problem, row_bytes) - prepared.fixed.item()
    limits["GMEM"] = max(limits["GMEM"], _streamed(problem, prepared, gpu))
    if limits["power"] < (1 - 1e-9) * looped:
        del limits["power"]  # clocks need not fall
    if unit != "wgmma":  # its parts add up, so alone each seems quicker than it is
        limits["delivery of elements"] = limits.pop("writes to SMEM")
        rate = 2e-6 * gpu.macs(unit, problem.a.dtype) * gpu.clock(unit) * gpu.sm_count
        limits["tensor cores"] = max(limits["tensor cores"], problem.flops / rate)
    evenly = clusters / tiles.clusters_at_once.item() / waves if waves > 1 else 1.0
    floor = max(limits.get(name, 0.0) for name in ("power", "GMEM", "stores"))  # which waves do not change
    tail = max(0.0, min(looped * (1 - evenly), looped - floor))
    known = CHIPS[gpu.name].latencies if gpu.name in CHIPS else None
    prologue = min(known.dram / gpu.clock(unit) * 1e6, costs.launch) if known else 0.0
    parts = Parts(costs.launch - prologue, prologue, looped - tail, tail, own - costs.launch)
    return Breakdown(
        Parts(*(part / 1e6 for part in parts)),
        {name: min(us, looped) / 1e6 for name, us in limits.items() if us > 1e-9},
        int((tiles.clusters_at_once * tiles.cluster_m * tiles.cluster_n * tiles.split_k).item()),
    )


def _us(prepared: Prepared, problem: Problem, row_bytes: int) -> float:
    return found_of(fixed(prepared, problem.n, problem.k, problem.batch_count, row_bytes), problem.m).us.item()


def _streamed(problem: Problem, prepared: Prepared, gpu: Hardware) -> float:
    """Microseconds in which each operand crosses GMEM once."""
    return problem.minimum_bytes / (prepared.costs.streamed * gpu.memory_bandwidth / 1e6)


def _clusters(prepared: Prepared, problem: Problem) -> tuple[float, int]:
    """Clusters that cover out, and the waves in which they work."""
    along_m, along_n = prepared.along
    clusters = (np.ceil(problem.m / along_m) * np.ceil(problem.n / along_n)).item() * problem.batch_count
    return clusters, ceil(clusters / prepared.tiles.clusters_at_once.item())
