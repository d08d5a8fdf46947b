"""The bits of a result that have no value, given those of the operands.

A mask has the type of its register, and ones where that has no value; that of a predicate is a bool. Instructions that
only move bits do to masks what they do to values; here are those that compute.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.scalars import Values, u4


def anywhere(*masks: Values) -> Values:
    """The lanes in which a bit of any operand has no value."""
    found: Values = np.bool_(False)
    for mask in masks:
        found = found | (mask != 0)
    return found


def whole(missing: Values, dtype: npt.DTypeLike) -> Values:
    """The mask of a result of which nothing is known in some lanes."""
    kind = np.dtype(dtype)
    return missing if kind.kind == "b" else np.where(missing, np.iinfo(kind).max, 0).astype(kind)


def upward(*masks: Values) -> Values:
    """The mask of a sum, or of the low bits of a product: carries go up, from the lowest bit without a value on."""
    mask: Values = masks[0]
    for other in masks[1:]:
        mask = mask | other
    return mask | np.negative(np.asarray(mask))


def of_halves(*masks: Values) -> Values:
    """The mask of an operation on pairs of 16 bits."""
    low, high = (anywhere(*(mask & u4(half) for mask in masks)) for half in (0xFFFF, 0xFFFF0000))
    return np.where(low, u4(0xFFFF), u4(0)) | np.where(high, u4(0xFFFF0000), u4(0))


def of_logic(table: Values, values: Sequence[Values], masks: Sequence[Values]) -> Values:
    """The mask of a bitwise function of up to three inputs, given as lop3 takes it: where both results are possible.

    So a bit has a value wherever one of the inputs decides it alone.
    """
    possible: list[Values] = [values[0] ^ values[0]] * 2  # of no result so far
    for row in range(8):
        here = ~possible[0] | possible[0]
        for place, value, mask in zip((4, 2, 1), values, masks, strict=False):
            here = here & ((value if row & place else ~value) | mask)
        result = int(table) >> row & 1
        possible[result] = possible[result] | here
    return possible[0] & possible[1]
