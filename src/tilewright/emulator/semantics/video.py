"""The video instructions: arithmetic on words, and on their halves and bytes.

Source: PTX ISA, "Scalar video instructions" and "SIMD video instructions". Inputs become integers of 33 bits, of which
an operation makes one of 34; that is saturated, combined with a third operand, and cut to 32 bits.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.integers import part_of
from tilewright.emulator.semantics.scalars import Values

Wide: TypeAlias = npt.NDArray[np.int64]
Limits: TypeAlias = tuple[int, int] | None
"""The smallest and the largest result where it saturates."""

_OPERATIONS: dict[str, Callable[[Wide, Wide], Wide]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "eq": lambda a, b: (a == b).astype(np.int64),
    "ne": lambda a, b: (a != b).astype(np.int64),
    "lt": lambda a, b: (a < b).astype(np.int64),
    "le": lambda a, b: (a <= b).astype(np.int64),
    "gt": lambda a, b: (a > b).astype(np.int64),
    "ge": lambda a, b: (a >= b).astype(np.int64),
    "vshl.clamp": lambda a, b: _shifted_left(a, np.minimum(b, 32)),
    "vshl.wrap": lambda a, b: _shifted_left(a, b & 31),
    "vshr.clamp": lambda a, b: a >> np.minimum(b, 32),
    "vshr.wrap": lambda a, b: a >> (b & 31),
}
_SECOND: dict[str, Callable[[Wide, Wide], Wide]] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def fields(words: Sequence[Values], chosen: Sequence[int], bits: int) -> list[Wide]:
    """Parts of words as integers of 33 bits, counted from the first word's lowest part on.

    The sign of a word tells how its parts extend.
    """
    each = 32 // bits
    return [np.asarray(part_of(words[part // each], part % each, bits)).astype(np.int64) for part in chosen]


def video(operation: str, a: Wide, b: Wide, limits: Limits, second: str, place: tuple[int, int], c: Values) -> Values:
    """The result of a scalar instruction as uint32.

    operation: an opcode, with the mode of a shift, or the comparison of vset.
    second: add, min or max, a second operation whose other operand is c; empty for none.
    place: bits and number of the part of c that the result replaces; (32, 0) is all of it.
    """
    result = _clip(_OPERATIONS[operation](a, b), limits)
    result = (result + (1 << 32) & (1 << 33) - 1) - (1 << 32)
    if second:
        result = _SECOND[second](result, c.astype(np.int64))
    bits, number = place
    ones = (1 << bits) - 1 << bits * number
    kept = c.astype(np.int64) & (0xFFFFFFFF ^ ones)
    return np.asarray((result << bits * number & ones | kept).astype(np.uint32))


def video_parts(
    operation: str, bits: int, a: Sequence[Wide], b: Sequence[Wide], limits: Limits, adds: bool, mask: int, c: Values
) -> Values:
    """The results of a SIMD instruction for the parts of words, as uint32.

    mask: the parts that count, as bits; the others are those of c.
    adds: whether the results are added to c, and do not become parts of the result.
    """
    total = c.astype(np.int64) if adds else np.int64(0)
    for number, operands in enumerate(zip(a, b, strict=True)):
        ones = (1 << bits) - 1 << bits * number
        if mask >> number & 1:
            result = _clip(_OPERATIONS[operation](*operands), limits)
            total = total + result if adds else total | (result << bits * number & ones)
        elif not adds:
            total = total | (c.astype(np.int64) & ones)
    return np.asarray((total & 0xFFFFFFFF).astype(np.uint32))


def multiply_add(
    a: Wide, b: Wide, c: Values, negated: str, one_more: bool, is_signed: bool, shift: int, saturates: bool
) -> Values:
    """vmad: a * b + c as uint32, where `negated` is "product", "c" or empty.

    one_more: whether 1 is added besides. is_signed: whether the result is. shift: to the right, before it saturates.
    """
    product = a.astype(object) * b.astype(object)  # of up to 66 bits
    product = -product if negated == "product" else product
    addend = ~c if negated == "c" else c
    addend = addend.view(np.int32) if is_signed else addend.view(np.uint32)
    result = product + addend.astype(object) + (one_more or negated == "c")
    result = np.asarray(result >> shift)
    if saturates:
        low, high = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, (1 << 32) - 1)
        result = np.minimum(np.maximum(result, low), high)
    return np.asarray((result & 0xFFFFFFFF).astype(np.uint32))


def _shifted_left(a: Wide, count: Wide) -> Wide:
    """a << count for counts up to 32; at 32, only the sign and the low 32 bits of the result are right."""
    return np.where(count < 32, a << np.minimum(count, 31), np.clip(a, -8, 8) << 32)


def _clip(values: Wide, limits: Limits) -> Wide:
    return values if limits is None else np.clip(values, *limits)
