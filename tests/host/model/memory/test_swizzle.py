"""Swizzles against the published patterns and places, and against the emulator's own."""

import numpy as np
import pytest

from tilewright.emulator.semantics.swizzle import swizzle as of_emulator
from tilewright.errors import ArgumentValueError
from tilewright.model.memory.swizzle import SWIZZLES, Swizzle, chunks_of_column, swizzle_of


@pytest.mark.parametrize(
    ("span", "name", "pattern", "period"),
    [
        (128, "Swizzle<3,4,3>", "xxxxxxGH_IWYZxxxx", 1024),
        (64, "Swizzle<2,4,3>", "xxxxxxxH_IxYZxxxx", 512),
        (32, "Swizzle<1,4,3>", "xxxxxxxx_IxxZxxxx", 256),
    ],
)
def test_published_patterns(span, name, pattern, period):
    """Figure 37 of Gordić's article; it gives the 32-byte swizzle the name of the 64-byte one."""
    swizzle = swizzle_of(span)
    assert (str(swizzle), swizzle.pattern(), swizzle.span, swizzle.period) == (name, pattern, span, period)


def test_published_steps():
    """The steps of Gordić's article: the masks are 0b111 and 0b11_10000000."""
    steps = SWIZZLES[128].steps(0b10_1011_1101)
    assert (steps.bit_mask, steps.source_mask) == (0b111, 0b11_1000_0000)
    assert (steps.masked, steps.shifted, steps.result) == (0b10_1000_0000, 0b101_0000, 0b10_1110_1101)


@pytest.mark.parametrize("span", SWIZZLES)
def test_the_emulator_swizzles_alike(span):
    offsets = np.arange(1 << 14, dtype=np.int64)
    placed = SWIZZLES[span](offsets)
    assert (placed == of_emulator(offsets, span)).all()
    assert (np.sort(placed) == offsets).all()
    assert (SWIZZLES[span](placed) == offsets).all()


@pytest.mark.parametrize(
    ("span", "chunks"),
    [(128, [0, 1, 2, 3, 4, 5, 6, 7]), (64, [0, 4, 1, 5, 2, 6, 3, 7]), (32, [0, 2, 4, 6, 1, 3, 5, 7])],
)
def test_column_0_meets_all_banks(span, chunks):
    assert chunks_of_column(SWIZZLES[span]) == chunks


def test_bits_of_other_swizzles():
    """CuTe's swizzle of 8-byte chunks, in which bits 8 to 6 decide about 5 to 3."""
    assert Swizzle(3, 3, 3).pattern() == "xxxxxxxH_IJYZmxxx"


@pytest.mark.parametrize("wrong", [(4, 4, 3), (-1, 4, 3), (1, -1, 3), (1, 40, 3)])
def test_impossible_swizzles_are_refused(wrong):
    with pytest.raises(ArgumentValueError, match=r"is no swizzle: give 0 <= B <= S"):
        Swizzle(*wrong)


def test_unknown_spans_and_offsets_are_refused():
    with pytest.raises(ArgumentValueError, match=r"span=96 is no swizzle of TMA: use 128, 64, 32 bytes"):
        swizzle_of(96)
    with pytest.raises(ArgumentValueError, match=r"offset=-1 must be an integer from 0 on"):
        SWIZZLES[128].steps(-1)
