"""The least time of a product by the data sheet of a GPU that need not be present; `cost` predicts a kernel's time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.problem import Problem
from tilewright.rounding import MOST_COUNTED, natural

if TYPE_CHECKING:  # which only those need who ask about a GPU that planning does not know
    from tilewright.model.chips import AnyChip


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """The roofline of a problem: no kernel can be faster than `seconds` at these rates.

    compute_seconds: of arithmetic. memory_seconds: of each operand once across GMEM. power_seconds: of the energy of
    the arithmetic, where that is known.
    """

    compute_seconds: float
    memory_seconds: float
    power_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The longest of them."""
        return max(self.compute_seconds, self.memory_seconds, self.power_seconds)

    @property
    def bound(self) -> str:
        """`compute`, `memory` or `power`: which of them is the longest."""
        found = {"compute": self.compute_seconds, "memory": self.memory_seconds, "power": self.power_seconds}
        return max(found, key=lambda name: found[name])


def speed_of_light(problem: Problem, chip: "AnyChip") -> SpeedOfLight:
    """The roofline: arithmetic at the boost clock, and each operand once across GMEM at the data sheet's bandwidth."""
    from tilewright.model.chips import gpu_of

    hardware = gpu_of(chip)
    return SpeedOfLight(
        compute_seconds=problem.flops / hardware.peak_flops(problem.a.dtype),
        memory_seconds=problem.minimum_bytes / hardware.memory_bandwidth,
    )


def of_product(
    chip: "AnyChip", m: int, n: int, k: int, operands: str, clock: float | None = None, watts: float | None = None,
    data: str = "randn",
) -> SpeedOfLight:  # fmt: skip
    """The roofline of a product of elements of a type by its name, on any chip and of any type that it multiplies.

    out has elements of 2 bytes if those of A and B are smaller, else of the same size. clock: in Hz, if it is not the
    boost clock. watts: a power limit, for bf16 and fp16 on an H200; data: what is multiplied there, as in
    `power.BY_DATA`. Raises an ArgumentValueError for an extent below 1 and for a type that the chip does not multiply.
    """
    from tilewright.model.chips import BYTES, chip_of
    from tilewright.model.power import settled_flops

    for name, extent in (("m", m), ("n", n), ("k", k)):
        natural(name, extent, 1, MOST_COUNTED)
    chip = chip_of(chip)
    rate, flops = chip.rate(operands), 2.0 * m * n * k
    size = BYTES[rate.operands]
    moved = (m * k + n * k) * size + m * n * max(size, 2)
    return SpeedOfLight(
        compute_seconds=flops / chip.flops(rate, clock),
        memory_seconds=moved / chip.gpu.memory_bandwidth,
        power_seconds=0.0 if watts is None else flops / settled_flops(chip.gpu, watts, data),
    )
