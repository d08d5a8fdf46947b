"""The video instructions: arithmetic on words, and on their halves and bytes.

Source: PTX ISA, "Scalar video instructions" and "SIMD video instructions". Inputs become integers of 33 bits, of which
an operation makes a wider one; that is saturated, combined with a third operand, and cut to 32 bits.

Since Maxwell, GPUs have no scalar video instructions: ptxas writes them out, and not always as the manual has them.
These here give what an H200 gives with the code of ptxas 13.0; comments say where the manual has something else.
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
    "vshl.clamp": lambda a, b: a << np.minimum(b, 32),
    "vshl.wrap": lambda a, b: a << (b & 31),
    "vshr.clamp": lambda a, b: a >> np.minimum(b, 32),
    "vshr.wrap": lambda a, b: a >> (b & 31),
}


def fields(words: Sequence[Values], chosen: Sequence[int], bits: int) -> list[Wide]:
    """Parts of words as integers of 33 bits, counted from the first word's lowest part on.

    The sign of a word tells how its parts extend.
    """
    each = 32 // bits
    return [np.asarray(part_of(words[part // each], part % each, bits)).astype(np.int64) for part in chosen]


def video(operation: str, a: Wide, b: Wide, limits: Limits, second: str, place: tuple[int, int], c: Values) -> Values:
    """The result of a scalar instruction as uint32.

    operation: an opcode, with the mode of a shift, or the comparison of vset.
    limits: of the type of the result and, except for shifts, of the bits that it replaces.
    second: add, min or max, a second operation whose other operand is c; empty for none.
    place: bits and number of the part of c that the result replaces; (32, 0) is all of it.
    c: with the sign of the result; for vset, that of a.
    """
    result = _OPERATIONS[operation](a, b)
    bits, number = place
    is_shift = operation.startswith("vsh")
    if limits is not None:
        result = _saturated(result, limits, bits, is_shift)
    if second == "add":
        result = _word(result) + c.astype(np.int64)
    elif second:
        # Of sums and of shifts that saturate, the low word counts, extended by its sign; the manual has all of them.
        counted = _word(result) if operation in ("vadd", "vsub") or (is_shift and limits is not None) else result
        wide = np.uint64 if c.dtype.kind == "u" else np.int64
        choose = np.minimum if second == "min" else np.maximum
        result = choose(counted.astype(wide), c.astype(wide)).astype(np.int64)
    ones = (1 << bits) - 1 << bits * number
    # The upper half is replaced by the upper half of the result; the manual has the lower one.
    moved = _word(result) << (0 if place == (16, 1) else bits * number)
    return np.asarray((moved & ones | c.astype(np.int64) & (0xFFFFFFFF ^ ones)).astype(np.uint32))


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
    a: Wide, b: Wide, c: Values, negated: str, one_more: bool, limits: Limits, is_signed: bool, shift: int
) -> Values:
    """vmad: a * b + c as uint32, where `negated` is "product", "c" or empty.

    one_more: whether 1 is added besides. is_signed: whether the result is. shift: to the right, before it saturates.
    """
    # Words are multiplied and added as signed ones, whatever their type; the manual has unsigned ones as well.
    product, addend = _word(a) * _word(b), _word(c.astype(np.int64))
    result = (-product if negated == "product" else product) + (-addend if negated == "c" else addend) + one_more
    result = result >> shift
    if shift and not is_signed:
        result = result & (1 << 64 - shift) - 1
    return np.asarray((_clip(result, limits) & 0xFFFFFFFF).astype(np.uint32))


def _saturated(result: Wide, limits: tuple[int, int], bits: int, is_shift: bool) -> Wide:
    """What a scalar instruction makes of a result with .sat."""
    low, high = limits
    if is_shift:  # 34 bits, as in the manual; for a part, the manual has the limits of the part
        return np.asarray(np.clip(result << 30 >> 30, low, high))
    if bits < 32:  # the manual has the smallest value of the part for what is less
        return np.where((result < 0) | (result > high), high, result)
    return np.asarray(np.clip(result, low, high if low else None))  # the manual limits unsigned ones on both sides


def _word(values: Wide) -> Wide:
    """The low 32 bits as a signed integer."""
    return values << 32 >> 32


def _clip(values: Wide, limits: Limits) -> Wide:
    return values if limits is None else np.clip(values, *limits)
