"""What microbenchmarks measure: clocks on each SM, beside those of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a case: of the SMs, the median, the least and the most; and the model's, if it has some.

    case: what was measured, by the names of its parts.
    """

    case: Mapping[str, str | int]
    median: float
    least: float
    most: float
    model: float | None

    @classmethod
    def of(cls, case: Mapping[str, str | int], by_sm: NDArray[np.float64], model: float | None) -> "Clocks":
        """From the clocks of each SM."""
        return cls(case, float(np.median(by_sm)), float(by_sm.min()), float(by_sm.max()), model)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.case, "median": self.median, "least": self.least, "most": self.most, "model": self.model}


def clocks_between(spans: NDArray[np.int64]) -> NDArray[np.float64]:
    """The clocks of each CTA: spans has, by CTA and by those that took clocks in it, the first and the last one."""
    found: NDArray[np.float64] = (spans[..., 1].max(axis=1) - spans[..., 0].min(axis=1)).astype(np.float64)
    return found


def wrong_result(kernel: str, where: str) -> TilewrightError:
    """The error for a kernel whose result is not what it must be."""
    return TilewrightError(
        f"{kernel} gives a wrong result on the {where}, so its clocks mean nothing: see `tilewright doctor`"
    )
