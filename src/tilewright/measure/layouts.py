"""The layouts of products that are measured: how A and B lie in memory, a letter for each."""

from typing import NamedTuple

from tilewright.operand import contiguous_strides

STEP = 2
"""Elements of a strided operand lie so many apart along both dimensions, as in `whole[::2, ::2]`."""

LAYOUTS = ("nt", "nn", "tn", "tt", "st", "ts", "sn", "ns", "ss")
"""n: stored as it is, t: transposed, s: strided, contiguous along neither rows nor columns."""


class Place(NamedTuple):
    """Where an operand lies: the extents of the packed memory that it is in, and its strides there in elements."""

    extents: tuple[int, int]
    strides: tuple[int, int]


def place_of(letter: str, rows: int, columns: int) -> Place:
    """The place of an operand (rows, columns) that is stored as the letter says."""
    step = STEP if letter == "s" else 1
    extents = (columns, rows) if letter == "t" else (rows * step, columns * step)
    outer, inner = (step * stride for stride in contiguous_strides(extents))
    return Place(extents, (inner, outer) if letter == "t" else (outer, inner))
