"""The least time of a product and the expected time of a tiled kernel, on a GPU that need not be present."""

from dataclasses import dataclass
from typing import Literal

from tilewright.hardware import Hardware, Unit
from tilewright.model import cost
from tilewright.problem import Problem
from tilewright.rounding import ceil_div

Power = Literal["settled", "burst"]
"""The power state: at the power limit after the clocks settled, or right after idle."""

ISSUE_RATE = {"wgmma": 0.975, "mma": 0.35, "cuda_cores": 0.76}
"""Share of the unit's clocks in which a good kernel multiplies.

wgmma: 96-99% of clocks, measured on an H200 with a warp-specialized kernel.
mma: the kernel `mma` on an H200, 298-375 TFLOP/s (docs/performance-log.md). On earlier GPUs, mma is the only way to the
tensor cores and gets wgmma's share.
cuda_cores: cuBLAS SGEMM on an H200, 50-51 of 67 TFLOP/s.
"""

POWER_LIMITED_MACS = {"settled": 2048 * 132 * 1.32e9, "burst": 2048 * 132 * 1.60e9}
"""Tensor-core multiply-adds per second at 700 W on random data, from clocks read inside kernels on an H200.

Data of zeros runs 13% faster. Hopper boards with another limit, such as H100-PCIe, get the same figures.
"""

DRAM_RATE = 0.93
"""Share of the data sheet's memory bandwidth that streaming reads reach: 4.23-4.57 of 4.8 TB/s on an H200."""

OVERHEAD_SECONDS = 3.0e-6
"""Launch, filling of the pipeline and last epilogue: the time of a 512^3 product on an H200 beyond its arithmetic."""


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """The roofline of a problem: no kernel can be faster than `seconds` at the data sheet's rates."""

    compute_seconds: float
    memory_seconds: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self) -> str:
        """`compute` or `memory`: which of the two is longer."""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted time of a tiled kernel, term by term.

    tile_count, waves: number of tiles, and of the rounds in which they are made.
    quantization: the share of multiply-adds that belong to the product. The rest pads tiles, or is lost to SMs that
    idle in the last wave.
    clock: Hz while multiplying.
    Arithmetic and traffic overlap, so `seconds` is the longer of the two plus the overhead.
    """

    tile_count: int
    waves: int
    quantization: float
    clock: float
    compute_seconds: float
    memory_seconds: float
    overhead_seconds: float
    flops: int

    @property
    def seconds(self) -> float:
        """Predicted time of one product."""
        return max(self.compute_seconds, self.memory_seconds) + self.overhead_seconds

    @property
    def tflops(self) -> float:
        """The rate that follows from `seconds`, in 10^12 floating-point operations per second."""
        return self.flops / self.seconds / 1e12


def speed_of_light(problem: Problem, hardware: Hardware) -> SpeedOfLight:
    """The roofline: arithmetic at the boost clock, and each operand once across GMEM at the data sheet's bandwidth."""
    return SpeedOfLight(
        compute_seconds=problem.flops / hardware.peak_flops(problem.a.dtype),
        memory_seconds=problem.minimum_bytes / hardware.memory_bandwidth,
    )


def predict(
    problem: Problem,
    hardware: Hardware,
    tile_m: int,
    tile_n: int,
    cta_count: int,
    *,
    unit: Unit = "wgmma",
    power: Power = "settled",
) -> Prediction:
    """The time of `problem` in (tile_m, tile_n) tiles, with `cta_count` tiles at a time, one per SM.

    It is within 10% of cuBLAS on an H200 from 2048^3 to 16384^3 (tests/host/test_model.py). For smaller products the
    overhead dominates, so the prediction is only as good as that constant.
    """
    tile_count = problem.batch_count * ceil_div(problem.m, tile_m) * ceil_div(problem.n, tile_n)
    ctas = max(1, min(cta_count, hardware.sm_count))
    waves = cost.waves(tile_count, ctas)
    macs_per_clock = hardware.macs(unit, problem.a.dtype) * _issue_rate(hardware, unit)
    clock = _clock(hardware, unit, power, macs_per_clock)
    tile_clocks = cost.multiply_clocks(tile_m, tile_n, problem.k, macs_per_clock)
    padded_macs = waves * hardware.sm_count * tile_m * tile_n * problem.k
    return Prediction(
        tile_count=tile_count,
        waves=waves,
        quantization=problem.flops / 2 / padded_macs if padded_macs else 1.0,
        clock=clock,
        compute_seconds=waves * tile_clocks / clock,
        memory_seconds=problem.minimum_bytes / (DRAM_RATE * hardware.memory_bandwidth),
        overhead_seconds=OVERHEAD_SECONDS,
        flops=problem.flops,
    )


def _issue_rate(hardware: Hardware, unit: Unit) -> float:
    return ISSUE_RATE["wgmma"] if unit == "mma" and hardware.capability < 90 else ISSUE_RATE[unit]


def _clock(hardware: Hardware, unit: Unit, power: Power, macs_per_clock: float) -> float:
    """The boost clock in Hz, or less if tensor cores at this rate per SM would exceed the power limit."""
    if unit == "cuda_cores" or hardware.capability < 90:
        return hardware.clock(unit)
    full = macs_per_clock * hardware.sm_count / ISSUE_RATE["wgmma"]
    return min(hardware.clock(unit), POWER_LIMITED_MACS[power] / full)
