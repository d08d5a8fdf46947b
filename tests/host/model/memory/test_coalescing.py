"""Coalescing against counts by hand, and against the function that the emulator counts by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.model.memory.coalescing import coalescing, pieces_touched
from tilewright.model.memory.pattern import addresses_of


@pytest.mark.parametrize(
    ("expression", "width", "sectors", "lines", "efficiency"),
    [
        ("lane * 4", 4, 4, 1, 1.0),
        ("lane * 4 + 4", 4, 5, 2, 0.8),  # one element further
        ("(31 - lane) * 4", 4, 4, 1, 1.0),  # the order of lanes does not matter
        ("lane * 8", 4, 8, 2, 0.5),
        ("lane * 4096 * 4", 4, 32, 32, 0.125),  # down a column
        ("0", 4, 1, 1, 0.125),  # all read one number
        ("lane * 16", 16, 16, 4, 1.0),
        ("lane * 2", 2, 2, 1, 1.0),
    ],
)
def test_sectors_and_lines(expression, width, sectors, lines, efficiency):
    found = coalescing(addresses_of(expression), width)
    assert (len(found.sectors), len(found.lines), found.efficiency) == (sectors, lines, efficiency)
    assert found.as_dict()["moved_bytes"] == 32 * sectors


@settings(max_examples=200)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(-1, 300), min_size=32, max_size=32))
def test_the_emulator_counts_the_same_sectors(width, places):
    addresses = np.array([width * place if place >= 0 else -1 for place in places], np.int64)
    found = coalescing(addresses, width)
    assert len(found.sectors) == pieces_touched(addresses[None], width, 32)[0]
    assert sorted(s for line in found.as_dict()["sectors_of_lines"].values() for s in line) == sorted(
        sector % 4 for sector in found.sectors
    )
    assert 0 < found.efficiency <= 1
