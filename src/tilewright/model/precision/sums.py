"""What a sum of products loses: by rounding its inputs, and by rounding the sum after each product.

Dot products of random numbers are emulated with NumPy, one product after the other, so every error is seen and none
estimated. Rounding to nearest is emulated; tensor cores cut sums off instead, which is up to twice as coarse.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import ArgumentValueError
from tilewright.model.precision.formats import Format
from tilewright.rounding import natural, one_of

Numbers = Literal["randn", "positive"]
"""Normal numbers, whose sums grow as the root of k; or numbers from 0 to 1, whose sums grow as k."""

MOST_K = 1 << 16
"""The longest sum that is emulated."""


@dataclass(frozen=True, slots=True)
class SumError:
    """The root mean square errors of dot products of length k, as shares of the exact ones' root mean square.

    inputs: by rounding a and b, and adding exactly. sum: by adding rounded products in the accumulator. total: both.
    """

    k: int
    inputs: float
    sum: float
    total: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def error_growth(
    inputs: Format,
    accumulator: Format,
    ks: Sequence[int],
    *,
    promote: int = 0,
    numbers: Numbers = "randn",
    samples: int = 256,
    seed: int = 0,
) -> list[SumError]:
    """The errors of dot products of each length, with a and b in one format and sums in another.

    promote: after so many products, the sum is added to one in fp32 and begins again; 0: never. samples: dot products
    of each length. Raises an ArgumentValueError for a length, number of samples or of products that cannot be.
    """
    natural("promote", promote)
    natural("seed", seed)
    natural("samples", samples, least=1)
    one_of("numbers", numbers, get_args(Numbers))
    wanted = {natural("k", k, least=1) for k in ks}
    if not wanted or max(wanted) > MOST_K:
        raise ArgumentValueError(f"ks={list(ks)} must be lengths up to {MOST_K:,}: give some, and shorter ones")
    random = np.random.default_rng(seed)
    exact, of_rounded, inner = np.zeros((3, samples))
    outer = np.zeros(samples, np.float32)
    found = []
    for k in range(1, max(wanted) + 1):
        a, b = _draw(random, numbers, samples)
        rounded_a, rounded_b = inputs.rounded(a), inputs.rounded(b)
        exact += a * b
        of_rounded += rounded_a * rounded_b
        inner = accumulator.rounded(inner + rounded_a * rounded_b)
        if promote and k % promote == 0:
            outer, inner = outer + inner.astype(np.float32), np.zeros(samples)
        if k in wanted:
            result, size = outer + inner, _size(exact)
            found.append(
                SumError(
                    k,
                    inputs=_size(of_rounded - exact) / size,
                    sum=_size(result - of_rounded) / size,
                    total=_size(result - exact) / size,
                )
            )
    return found


def _draw(random: np.random.Generator, numbers: Numbers, samples: int) -> NDArray[np.float64]:
    """The next a and b of each dot product."""
    return random.standard_normal((2, samples)) if numbers == "randn" else random.random((2, samples))


def _size(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values * values)))
