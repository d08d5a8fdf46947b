"""Layouts of tiles: the conflicts that are published, and that each keeps every chunk once."""

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.errors import ArgumentValueError
from tilewright.model.memory.layouts import linear, padded, swizzled, transposition, usual_layouts, volta


@pytest.mark.parametrize("layout", usual_layouts(), ids=lambda layout: layout.name)
def test_each_chunk_has_a_place_of_its_own(layout):
    kept = layout.chunk_at()
    assert (np.sort(kept[kept >= 0]) == np.arange(layout.rows * layout.chunks)).all()


@pytest.mark.parametrize(
    ("layout", "ways"),
    [
        (linear(), 8),
        (padded(16), 1),
        (padded(64), 4),
        (swizzled(128), 1),
        (linear(chunks=4), 4),
        (swizzled(64), 1),
        (linear(chunks=2), 2),
        (swizzled(32), 1),
        (volta(permuted=False), 4),
        (volta(), 1),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_ways_of_a_transposition(layout, ways):
    """Eight ways without a swizzle and one with it, by Gordić; four and one on Volta, by the article about it."""
    found = transposition(layout)
    assert (found.ways, found.write.ways, found.as_dict()["ways"]) == (ways, 1, ways)


def test_rows_of_the_128_byte_swizzle():
    """As cuda/layout/swizzle.cuh draws them."""
    rows = swizzled(128).chunk_at().reshape(8, 8) % 8
    assert rows[:4].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5],
                                 [3, 2, 1, 0, 7, 6, 5, 4]]  # fmt: skip


def test_voltas_permutation_is_that_of_the_kernel():
    """As cuda/ladder/volta_mma.cuh draws it: row k and chunk of each place."""
    header = (Path(tilewright.__file__).parent / "cuda/ladder/volta_mma.cuh").read_text(encoding="utf-8")
    drawn = [re.findall(r"\d\d", line) for line in re.findall(r"\| ((?:\d\d ){8})\|  chunks", header)]
    kept = volta().chunk_at().reshape(4, 8)
    assert drawn == [[f"{chunk // 8}{chunk % 8}" for chunk in line] for line in kept.tolist()]


def test_lanes_of_a_quad_find_their_column_in_half_a_row():
    """Lanes 0-3 want rows 0-3 of chunk 0, which Volta's permutation has moved into one row."""
    places = volta().addresses(volta().down_columns)[:4]
    assert places.tolist() == [0, 16, 32, 48]


def test_padding_keeps_chunks_aligned():
    with pytest.raises(ArgumentValueError, match=r"padding=4 is no multiple of 16 bytes"):
        padded(4)
