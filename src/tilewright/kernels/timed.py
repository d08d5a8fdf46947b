"""The common base of kernels whose Configs are timed together, by arithmetic on arrays."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel
from tilewright.model.tiling.tiles import Array
from tilewright.problem import Problem


class TimedKernel(Kernel):
    """A kernel with a model that times all of its Configs for a problem at once."""

    @abstractmethod
    def timed(self, problem: Problem, hardware: Hardware) -> tuple[Sequence[Any], Array]:
        """The Configs that are offered, and what the model says of each in seconds."""

    def ranking_factor(self, config: Any, problem: Problem) -> float:
        """What the time that is compared with those of other kernels is of the model's time of a Config."""
        return 1.0

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """Those offered, the quickest first; Configs of equal time keep their order."""
        configs, times = self.timed(problem, hardware)
        return [configs[index] for index in times.argsort(kind="stable")]

    def best(self, problem: Problem, hardware: Hardware) -> Any:
        """The first of `configs`, without the others."""
        configs, times = self.timed(problem, hardware)
        return configs[int(times.argmin())]

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time by which it is ranked beside other kernels."""
        configs, times = self.timed(problem, hardware)
        return float(times.min()) * self.ranking_factor(configs[0], problem)
