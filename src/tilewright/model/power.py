"""What an H200 did at its power limit, as measured, and the speed of light that follows.

The board lowers its clocks until it draws no more than its limit. So a product that keeps the tensor cores busy settles
below the boost clock, and joules per operation say how fast it can be. Random data of a normal distribution: zeros run
24% faster (results/power_h200.json), since power depends on the bits that change.
"""

from typing import NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.model.chips import AnyChip, gpu_of


class Settled(NamedTuple):
    """A product in bf16 that `tilewright bench` measured with settled clocks.

    m, n, k: the product, of layout nt. watts: of the board. mhz: of the SMs, as NVML reads it, which is some 10% more
    than counters in a kernel do. tflops: 10^12 operations per second.
    """

    m: int
    n: int
    k: int
    watts: float
    mhz: float
    tflops: float


MEASURED = (
    Settled(512, 512, 512, 374.1, 1980, 97.0),
    Settled(1000, 1000, 1000, 664.6, 1980, 294.6),
    Settled(1024, 1024, 1024, 690.7, 1736, 370.3),
    Settled(2048, 2048, 2048, 689.7, 1556, 604.6),
    Settled(4096, 4096, 4096, 692.8, 1459, 656.0),
    Settled(2048, 12288, 4096, 691.9, 1492, 675.9),
    Settled(8192, 8192, 8192, 691.2, 1459, 687.4),
    Settled(4096, 28672, 8192, 693.5, 1462, 695.0),
    Settled(4096, 7168, 16384, 696.0, 1474, 698.6),
)
"""An H200 with a limit of 700 W (results/proof.json, kernel `wgmma`), from the least rate to the highest."""


def joules_per_tflop() -> float:
    """Joules for 10^12 operations in bf16, at the least of what was measured."""
    return min(each.watts / each.tflops for each in MEASURED)


def settled_flops(chip: AnyChip, watts: float) -> float:
    """Operations per second in bf16 that a power limit allows, by the measured joules per operation.

    They were measured near 700 W. At a lower limit, clocks and voltage are lower and an operation takes less energy, so
    the rate is somewhat higher than this. Raises an ArgumentValueError for another GPU, and for watts that are no limit
    of the board.
    """
    gpu = gpu_of(chip)
    if gpu.name != H200.name:
        raise ArgumentValueError(f"watts={watts:g} of {gpu.name}: joules were measured on an H200: leave it out")
    if not 200 <= watts <= 700:
        raise ArgumentValueError(f"watts={watts:g} is no power limit of an H200: give 200 to 700")
    return watts / joules_per_tflop() * 1e12
