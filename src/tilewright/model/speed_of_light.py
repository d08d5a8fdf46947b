"""The least time of a product by the data sheet of a GPU that need not be present; `cost` predicts a kernel's time."""

from dataclasses import dataclass

from tilewright.hardware import Hardware
from tilewright.problem import Problem


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


def speed_of_light(problem: Problem, hardware: Hardware) -> SpeedOfLight:
    """The roofline: arithmetic at the boost clock, and each operand once across GMEM at the data sheet's bandwidth."""
    return SpeedOfLight(
        compute_seconds=problem.flops / hardware.peak_flops(problem.a.dtype),
        memory_seconds=problem.minimum_bytes / hardware.memory_bandwidth,
    )
