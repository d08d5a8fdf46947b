"""Statistics of repeated measurements: medians with distribution-free intervals, and paired ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from tilewright.errors import ArgumentValueError


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and an interval that contains the true median with at least the stated confidence.

    With too few samples the interval is their whole range, and `confidence` is lower than requested.
    """

    low: float
    median: float
    high: float
    confidence: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"low": self.low, "median": self.median, "high": self.high, "confidence": self.confidence}


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The sign-test interval of the median. It uses order statistics and assumes nothing about the distribution.

    The i-th smallest and the i-th largest of n independent samples enclose the median with probability
    1 - 2 P(Binomial(n, 1/2) < i).
    """
    if not samples:
        raise ArgumentValueError("samples is empty: a median needs at least one measurement; pass one")
    ordered = sorted(samples)
    n = len(ordered)

    def covered(rank: int) -> float:
        return 1 - 2 * sum(comb(n, j) for j in range(rank)) / float(2**n)

    rank = 1
    while rank < (n + 1) // 2 and covered(rank + 1) >= confidence:
        rank += 1
    return Interval(ordered[rank - 1], median(ordered), ordered[n - rank], covered(rank))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95) -> Interval:
    """How many times faster `ours` is than `theirs`, from one ratio per pair of times measured together."""
    return median_interval([t / o for o, t in zip(ours, theirs, strict=True)], confidence)
