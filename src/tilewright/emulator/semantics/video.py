"""The SIMD video instructions: arithmetic on the two halves or the four bytes of words.

Source: PTX ISA, "SIMD video instructions", whose selectors and masks are those that stand for whole words.
"""

from collections.abc import Callable

import numpy as np

from tilewright.emulator.semantics.integers import part_of
from tilewright.emulator.semantics.scalars import Values

_OPERATIONS: dict[str, Callable[[Values, Values], Values]] = {
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
}


def video(operation: str, bits: int, a: Values, b: Values, limits: tuple[int, int] | None, c: Values | None) -> Values:
    """The results for all parts of words, as uint32.

    operation: an opcode without its number of parts, or the comparison of vset.
    bits: those of a part.
    a, b: words whose sign tells how their parts extend.
    limits: the smallest and the largest result where they saturate.
    c: what the results are added to, uint32; None if each becomes a part of the result.
    """
    total: Values = np.uint32(0) if c is None else c
    for index in range(32 // bits):
        result = _OPERATIONS[operation](*(part_of(word, index, bits).astype(np.int64) for word in (a, b)))
        if limits is not None:
            result = np.clip(result, *limits)
        if c is None:
            total = total | (result << (bits * index) & ((1 << bits) - 1 << bits * index)).astype(np.uint32)
        else:
            total = total + (result & 0xFFFFFFFF).astype(np.uint32)
    return np.asarray(total)
