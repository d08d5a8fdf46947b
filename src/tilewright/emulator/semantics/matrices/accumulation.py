"""What the tensor cores of an H200 add: which products at once, how many bits of them, and how a sum is rounded.

One step adds some products and the accumulator at once. Products are exact. All terms are aligned to the largest
exponent, where that of a product is the sum of its factors' exponents, and cut behind `fraction_bits`, toward zero.
Their sum is exact. As f32 it is cut toward zero, as f16 rounded to the nearest, ties to even; a zero is +0.

Sources: P. Xie and others, "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", 2025, for the
steps, the bits and special values; the machine code that ptxas 13.0 writes for sm_90, for the instructions that are
made of others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.scalars import Values, f2, f4, f8, narrow_to_odd, u4, u8
from tilewright.errors import ArgumentValueError

Arithmetic = Literal["exact", "hardware"]
"""How tensor cores add: products exactly and sums in float32, or all as the tensor cores of an H200."""
MODES: tuple[Arithmetic, ...] = get_args(Arithmetic)

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Exponents = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Adder:
    """How an instruction adds its products to an accumulator.

    steps: parts of K that are added one after the other, each at once.
    fraction_bits: bits that each term keeps behind the point of the largest one.
    sum_bits: bits that a sum of f32 keeps behind its point.
    unpacked: fp8 that becomes f16 first. The lower halves of all words make the first step and the upper ones the
    second; these begin at zero, and the accumulator is added last, rounded to the nearest.
    """

    steps: int = 1
    fraction_bits: int = 25
    sum_bits: int = 23
    unpacked: bool = False


ADDERS = {
    ("mma", "f16"): Adder(),
    ("mma", "bf16"): Adder(),
    ("mma", "tf32"): Adder(),
    ("mma", "fp8"): Adder(steps=2, unpacked=True),
    ("wmma", "f16"): Adder(),
    ("wmma", "bf16"): Adder(),
    ("wmma", "tf32"): Adder(steps=2),
    ("wgmma", "f16"): Adder(),
    ("wgmma", "bf16"): Adder(),
    ("wgmma", "tf32"): Adder(),
    ("wgmma", "fp8"): Adder(fraction_bits=13, sum_bits=13),
}
"""Instruction and family of A's and B's type -> how an H200 (sm_90) adds. mma.sp adds its kept products like mma."""

MODELED = 90
"""The compute capability, times ten, of the GPUs that add so. They also run code for lower ones."""


def adder_of(arithmetic: Arithmetic, instruction: str, family: str) -> Adder | None:
    """How an instruction, "mma", "wmma" or "wgmma", adds products of a family of types; None if exactly."""
    return ADDERS.get((instruction, family)) if arithmetic == "hardware" else None


def require_modeled(arithmetic: Arithmetic, target: str) -> None:
    """Raise an ArgumentValueError for "hardware" and a module's target that the modeled GPU does not run."""
    number = int(target.removeprefix("sm_").rstrip("af"))
    if arithmetic == "hardware" and number > MODELED:
        raise ArgumentValueError(
            f"tensor_cores is 'hardware', which is an H200 (sm_{MODELED}), and the module is for {target}, whose "
            f"tensor cores are not modeled: compile it for sm_{MODELED}a or lower, or take tensor_cores='exact'"
        )


ZERO_EXPONENT = -133
"""The exponent that a term of zero counts with."""

_LEAST_EXPONENTS = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126}
"""Type -> the exponent of its subnormals, which count with leading zeros."""
_BELOW_ALL = -1000
"""An exponent of a factor of zero, with which its product counts as less than any term of zero."""
_NAN = u4(0x7FFFFFFF).view(f4)


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of products that are summed over k: elements a[k] * b[k], which broadcast to (..., M, N).

    a, b: float32, with k first. a_type, b_type: their types in PTX.
    """

    a: Float32
    b: Float32
    a_type: str
    b_type: str

    def part(self, chosen: slice | npt.NDArray[np.intp]) -> "Factors":
        """The factors of some k."""
        return Factors(self.a[chosen], self.b[chosen], self.a_type, self.b_type)


def factors_of(a: Float32, b: Float32, a_type: str, b_type: str) -> Factors:
    """The factors of A B: a (..., M, K), b (..., K, N)."""
    return Factors(np.moveaxis(a, -1, 0)[..., None], np.moveaxis(b, -2, 0)[..., None, :], a_type, b_type)


def hardware_sum(adder: Adder, factors: Factors, c: Float32, accumulator: str) -> Float32:
    """C and the products, as an H200 adds them.

    c: (..., M, N), values of the accumulators' type, "f32" or "f16". Returns such values, in float32. A NaN is
    0x7fffffff, of f16 0x7fff.
    """
    depth = len(factors.a)
    if adder.unpacked:
        factors = Factors(factors.a, factors.b, "f16", "f16")
        upper = np.arange(depth) // 2 % 2
        parts = [np.flatnonzero(upper == half) for half in range(2)]
    else:
        parts = np.array_split(np.arange(depth), adder.steps)
    total = np.zeros_like(c) if adder.unpacked else c
    for part in parts:
        total = _step(adder, factors.part(part), total, accumulator)
    if not adder.unpacked:
        return total
    with np.errstate(all="ignore"):
        return with_one_nan(_as(accumulator, c + total))


def _step(adder: Adder, factors: Factors, c: Float32, accumulator: str) -> Float32:
    """One step: see the module."""
    if all(np.isfinite(values).all() for values in (factors.a, factors.b, c)):
        return _finite_step(adder, factors, c, accumulator)
    with np.errstate(all="ignore"):
        special = c.astype(f8)
        for a, b in zip(factors.a, factors.b, strict=True):
            special = special + np.multiply(a, b, dtype=f8)
    a, b, c = (np.where(np.isfinite(values), values, f4(0)) for values in (factors.a, factors.b, c))
    total = _finite_step(adder, Factors(a, b, factors.a_type, factors.b_type), c, accumulator)
    return with_one_nan(np.where(np.isfinite(special), total, special.astype(f4)))


def _finite_step(adder: Adder, factors: Factors, c: Float32, accumulator: str) -> Float32:
    exponents_a = _exponents(factors.a, factors.a_type, _BELOW_ALL)
    exponents_b = _exponents(factors.b, factors.b_type, _BELOW_ALL)
    of_a, of_b = factors.a.astype(f8), factors.b.astype(f8)
    largest = _exponents(c, accumulator, ZERO_EXPONENT)
    total = np.empty(c.shape)
    for part in _parts(c.shape):
        # a of one tile, CTA or row may serve all of them
        x, y, u, v = (_part(values, part) for values in (exponents_a, exponents_b, of_a, of_b))
        top, scaled = largest[part], c[part].astype(f8)
        term = np.empty_like(top)
        for k in range(len(x)):
            np.maximum(top, np.add(x[k], y[k], out=term), out=top)
        # All of this is exact in float64: products have 22 bits, and the cut terms are integers below 2^28.
        scale = np.ldexp(1.0, adder.fraction_bits - top.astype(np.int32))
        scaled *= scale
        added = np.trunc(scaled)
        for k in range(len(u)):
            np.multiply(u[k], v[k], out=scaled)
            np.multiply(scaled, scale, out=scaled)
            added += np.trunc(scaled, out=scaled)
        total[part] = added / scale
    cut = _as("f16", narrow_to_odd(total)) if accumulator == "f16" else _cut(total, adder.sum_bits)
    return cut + f4(0)  # -0 becomes +0


_PART = 1 << 15
"""The elements of a result that are summed together, for the sake of the CPU's caches."""


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices of an array's second axis, or its first if it has only matrices, of about _PART elements together."""
    axis = min(1, len(shape) - 2)
    each = max(_PART * shape[axis] // max(prod(shape), 1), 1)
    for start in range(0, shape[axis], each):
        yield (slice(None),) * axis + (slice(start, start + each),)


def _part(values: Values, part: tuple[slice, ...]) -> Values:
    """The part of factors, which have k first; an axis of one serves all parts."""
    axis = len(part)
    return values if values.shape[axis] == 1 else values[:, *part]


def _exponents(values: Float32, kind: str, of_zero: int) -> Exponents:
    """The exponents of significands from 1 to 2, or less for subnormals of the type."""
    _, exponents = np.frexp(values)
    least = np.maximum(exponents - 1, _LEAST_EXPONENTS[kind])
    return np.where(values == 0, of_zero, least).astype(np.int16)


def _cut(values: Float64, bits: int) -> Float32:
    """Float64 as float32, cut behind so many bits toward zero; from 2^128 on infinity."""
    kept = (values.view(u8) & ~u8((1 << 52 - bits) - 1)).view(f8)
    subnormal = np.abs(values) < 2.0**-126
    if subnormal.any():
        unit = 2.0 ** (-126 - bits)
        kept = np.where(subnormal, np.trunc(values / unit) * unit, kept)
    with np.errstate(over="ignore"):
        return kept.astype(f4)


def _as(accumulator: str, values: Float32) -> Float32:
    """Float32 rounded to the nearest of the accumulators' type."""
    if accumulator == "f32":
        return values
    with np.errstate(over="ignore"):
        return values.astype(f2).astype(f4)


def with_one_nan(values: Float32) -> Float32:
    """The values, all NaNs with the same bits."""
    return np.where(np.isnan(values), _NAN, values)
