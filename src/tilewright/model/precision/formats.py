"""Floating-point formats, described by their bits; every other figure follows from decoding bit patterns.

Sources: IEEE 754; the OCP specifications "8-bit Floating Point" (E4M3, E5M2) and "Microscaling Formats" (E2M1, E2M3,
E3M2); PTX ISA, "Alternate Floating-Point Data Formats", for tf32. `e8m13` is what Hopper's tensor cores keep of a
sum of fp8 products (FZ. Xie and others, "MMA-Sim", 2025): 13 bits behind the point.
"""

from dataclasses import dataclass
from math import inf, nan
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.errors import ArgumentValueError
from tilewright.rounding import natural

Specials = Literal["infinity and NaN", "NaN", "none"]
"""What the patterns with all bits of the exponent set mean: infinities and NaN, as in IEEE 754; numbers, except that
the last pattern is NaN; numbers."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a sign, `exponent_bits` and `mantissa_bits`; the exponent's bias is half its range."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: Specials = "infinity and NaN"

    @property
    def bits(self) -> int:
        """All bits, the sign's too."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What the exponent's bits count from."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def patterns(self) -> int:
        """Bit patterns without a sign."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    def decode(self, pattern: int) -> float:
        """The value of a bit pattern without a sign; raises an ArgumentValueError for one that is too long."""
        if natural("pattern", pattern) >= self.patterns:
            raise ArgumentValueError(f"pattern={pattern} has more bits than {self.name}: use 0 to {self.patterns - 1}")
        exponent, mantissa = divmod(pattern, 1 << self.mantissa_bits)
        if self.specials == "infinity and NaN" and exponent == (1 << self.exponent_bits) - 1:
            return nan if mantissa else inf
        if self.specials == "NaN" and pattern == self.patterns - 1:
            return nan
        hidden = 1 << self.mantissa_bits if exponent else 0  # subnormal numbers have no leading 1
        return float(hidden + mantissa) * 2.0 ** (max(exponent, 1) - self.bias - self.mantissa_bits)

    @property
    def least_subnormal(self) -> float:
        """The least number above 0."""
        return self.decode(1)

    @property
    def least_normal(self) -> float:
        """The least number with all bits of the mantissa."""
        return self.decode(1 << self.mantissa_bits)

    @property
    def most(self) -> float:
        """The largest finite number."""
        left_out = {"infinity and NaN": 1 << self.mantissa_bits, "NaN": 1, "none": 0}[self.specials]
        return self.decode(self.patterns - 1 - left_out)

    @property
    def epsilon(self) -> float:
        """From 1 to the next number."""
        one = self.bias << self.mantissa_bits
        return self.decode(one + 1) - 1

    def rounded(self, values: ArrayLike) -> NDArray[np.float64]:
        """The nearest numbers of the format, the even one of two as near; beyond the range what `specials` says.

        That is infinity, NaN, or without either the largest number.
        """
        given = np.asarray(values, np.float64)
        _, exponent = np.frexp(given)  # of a mantissa from 1/2 on
        least = 1 - self.bias
        step = np.ldexp(1.0, np.maximum(exponent - 1, least) - self.mantissa_bits)
        nearest = np.rint(given / step) * step
        beyond = {"infinity and NaN": inf, "NaN": nan, "none": self.most}[self.specials]
        kept = np.where(np.abs(nearest) > self.most, np.copysign(beyond, given), nearest)
        result: NDArray[np.float64] = np.where(np.isfinite(given), kept, given)
        return result


FORMATS = {
    each.name: each
    for each in (
        Format("fp64", 11, 52),
        Format("fp32", 8, 23),
        Format("tf32", 8, 10),
        Format("bf16", 8, 7),
        Format("fp16", 5, 10),
        Format("e8m13", 8, 13),
        Format("e5m2", 5, 2),
        Format("e4m3", 4, 3, "NaN"),
        Format("e3m2", 3, 2, "none"),
        Format("e2m3", 2, 3, "none"),
        Format("e2m1", 2, 1, "none"),
    )
}
"""By name; the last five are fp8, fp6 and fp4."""


def format_named(name: str, argument: str = "format") -> Format:
    """The format of this name; an ArgumentValueError lists the names."""
    if name not in FORMATS:
        raise ArgumentValueError(f"{argument}={name!r} is unknown: use {', '.join(FORMATS)}")
    return FORMATS[name]
