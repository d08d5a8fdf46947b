"""What an H200 did at its power limit, as measured, and what follows at any power limit.

The board lowers its clocks until it draws no more than its limit. So a product that keeps the tensor cores busy settles
below the boost clock, and joules per operation say how fast it can be. They depend on the bits that change: zeros run
24% faster than random numbers.
"""

from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.model.chips import AnyChip, gpu_of
from tilewright.rounding import real


class Settled(NamedTuple):
    """A product in bf16 that `tilewright bench` measured with settled clocks.

    m, n, k: the product, of layout nt. watts: of the board. mhz: of the SMs, as NVML reads it, which is some 10% more
    than counters in a kernel do. tflops: 10^12 operations per second. data: what is multiplied, as in BY_DATA.
    """

    m: int
    n: int
    k: int
    watts: float
    mhz: float
    tflops: float
    data: str = "randn"

    @property
    def joules_per_tflop(self) -> float:
        """Joules for 10^12 operations."""
        return self.watts / self.tflops


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
"""An H200 with a limit of 700 W (results/proof_first_look.json, kernel `wgmma`), from the least rate to the highest."""


BY_DATA = {
    each.data: each
    for each in (
        Settled(8192, 8192, 8192, 428.3, 1815, 861.0, "zeros"),
        Settled(8192, 8192, 8192, 464.3, 1815, 860.0, "constant"),
        Settled(8192, 8192, 8192, 691.1, 1729, 811.2, "bits:0"),
        Settled(8192, 8192, 8192, 691.9, 1601, 754.7, "bits:25"),
        Settled(8192, 8192, 8192, 690.5, 1519, 717.2, "bits:50"),
        Settled(8192, 8192, 8192, 694.2, 1485, 703.1, "bits:75"),
        Settled(8192, 8192, 8192, 690.8, 1462, 693.8, "randn"),
    )
}  # fmt: skip
"""The same H200 by what A and B hold (results/power_h200.json), from what changes least to what changes most.

`constant` is pi everywhere; `bits:P` are random numbers whose mantissas keep each bit with a chance of P percent, and
have zeros elsewhere; `randn` are random numbers of a normal distribution.
"""

LIMITS = (200, 700)
"""The lowest and the highest power limit of the board, in watts."""


class Allowed(NamedTuple):
    """What a power limit allows: operations per second, the clock of the SMs as NVML reads it, and what holds them.

    bound: `power`, or `clock` where the product draws less than the limit.
    """

    flops: float
    mhz: float
    bound: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"tflops": self.flops / 1e12, "mhz": self.mhz, "bound": self.bound}


def joules_per_tflop(data: str = "randn") -> float:
    """Joules for 10^12 operations in bf16 on data of a kind, at the least of what was measured.

    Raises an ArgumentValueError that lists the kinds.
    """
    if data not in BY_DATA:
        raise ArgumentValueError(f"data={data!r} was not measured: use {', '.join(BY_DATA)}")
    return min(each.joules_per_tflop for each in (*MEASURED, *BY_DATA.values()) if each.data == data)


def allowed(chip: AnyChip, watts: float, data: str = "randn") -> Allowed:
    """What a power limit allows in bf16, if an operation takes as many joules as was measured, and no less.

    All was measured at 700 W. At a lower limit, the voltage is lower too and an operation takes less; but clocks and a
    board that is switched on take their part whatever is multiplied. Neither was measured. Raises an ArgumentValueError
    for another GPU, for watts that are no limit of the board, and for data of another kind.
    """
    gpu, watts = gpu_of(chip), real("watts", watts)
    if gpu.name != H200.name:
        raise ArgumentValueError(f"watts={watts:g} of {gpu.name}: joules were measured on an H200: leave it out")
    least, most = LIMITS
    if not least <= watts <= most:
        raise ArgumentValueError(f"watts={watts:g} is no power limit of an H200: give {least} to {most}")
    by_power, point = watts / joules_per_tflop(data), BY_DATA[data]
    most_mhz = max(each.mhz for each in BY_DATA.values())  # of data whose watts do not reach the limit
    mhz = min(most_mhz, point.mhz * by_power / point.tflops)
    return Allowed(point.tflops * mhz / point.mhz * 1e12, mhz, "power" if mhz < most_mhz else "clock")


def settled_flops(chip: AnyChip, watts: float, data: str = "randn") -> float:
    """The operations per second of `allowed`."""
    return allowed(chip, watts, data).flops
