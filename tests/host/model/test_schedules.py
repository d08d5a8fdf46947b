"""Schedules against the published example, and their reads against counts by hand."""

import re

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.schedules import Schedule, TileSizes, line_bytes_of, schedule_of, schedule_reads, schedules


def test_the_published_example():
    """Gordić's 64 tiles on 10 SMs: rows of A and columns of B that seven waves read."""
    found = {each.name: each for each in schedules(8, 8, 10, [(5, 2), (4, 4)], [8])}
    assert {name: sum(each.operands) for name, each in found.items()} == {
        "row by row": 65, "bands of 8 rows": 65, "blocks of 5 x 2": 48, "blocks of 4 x 4": 55, "Hilbert's curve": 49,
    }  # fmt: skip
    assert found["row by row"].operands == [10, 10, 10, 10, 10, 10, 5]
    assert [len(wave) for wave in found["Hilbert's curve"].waves] == [10] * 6 + [4]
    assert found["blocks of 5 x 2"].as_dict()["read"] == 48


def test_an_order_of_ones_own():
    """Two SMs: a diagonal reads four operands in each wave, a row three."""
    diagonal = Schedule("diagonal", ((0, 0), (1, 1), (0, 1), (1, 0)), 2)
    assert diagonal.operands == [4, 4]
    tile = TileSizes(64, 64, 64, 2)
    reads = schedule_reads(diagonal, (128, 128, 64), tile, 1 << 20)
    assert (reads.reads.nbytes, reads.reads.missed, reads.least_bytes) == (8 * 8192, 4 * 8192, 4 * 8192)
    assert reads.as_dict()["hit_rate"] == 0.5


def test_an_order_as_an_expression():
    columns = schedule_of("index % tiles_m * tiles_n + index // tiles_m", 2, 3, 2)
    assert columns.order == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    assert columns.operands == [3, 3, 3]
    rows = schedule_of("index", 8, 8, 10)
    assert rows.operands == schedules(8, 8, 10)[0].operands


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("index // 2", "is 0 at index 1, that of index 0: give each of the numbers 0 to 5 once"),
        ("index + 1", "is 6 at index 5, no tile"),
        ("None", "is None at index 0, no tile"),
        ("index - 1", "is -1 in index 0: give a number from 0 on"),
        ("lane", "'lane' in 'lane' is not understood: use index, tiles_m, tiles_n, whole numbers"),
    ],
)
def test_an_order_takes_each_tile_once(expression, why):
    with pytest.raises(ArgumentValueError, match=re.escape(why)):
        schedule_of(expression, 2, 3, 2)


def test_an_l2_that_holds_nothing_of_the_last_wave():
    """One SM and an L2 of one set: row by row, each tile reads its column anew, and its row too."""
    (rows, _) = schedules(2, 4, 1)
    tile = TileSizes(64, 64, 64, 2)
    shape = 2 * 64, 4 * 64, 64 * 100
    small = schedule_reads(rows, shape, tile, 16 * line_bytes_of(tile))
    assert small.reads.missed == small.reads.nbytes == 2 * 8 * 100 * 8192
    assert schedule_reads(rows, shape, tile, 1 << 30).reads.missed == small.least_bytes == (2 + 4) * 100 * 8192


@pytest.mark.parametrize("shape", [(1000, 1000, 1000), (100, 100, 100), (129, 257, 65), (1, 1, 1), (128, 256, 64)])
def test_edges_count_what_is_read(shape):
    """An L2 that holds everything reads each element once, and each tile its rows and columns."""
    m, n, k = shape
    tile = TileSizes(128, 256, 64, 2)
    tiles_m, tiles_n = -(-m // 128), -(-n // 256)
    for order in schedules(tiles_m, tiles_n, 3):
        found = schedule_reads(order, shape, tile, 1 << 30)
        assert found.least_bytes == found.reads.missed == (m + n) * k * 2
        assert found.reads.nbytes == (m * tiles_n + n * tiles_m) * k * 2


def test_a_tile_outside_the_result_is_refused():
    (rows, _) = schedules(2, 4, 1)
    with pytest.raises(ArgumentValueError, match=r"tile \(0, 2\) of row by row is outside 128 x 128: leave it out"):
        schedule_reads(rows, (128, 128, 64), TileSizes(64, 64, 64, 2), 1 << 20)


@pytest.mark.parametrize(
    ("tile", "line"),
    [
        (TileSizes(128, 256, 64, 2), 16384),
        (TileSizes(128, 192, 64, 2), 8192),
        (TileSizes(100, 100, 8, 2), 64),
        (TileSizes(1, 1, 1, 2), 2),
    ],
)
def test_lines_divide_the_parts_of_a_tile(tile, line):
    assert line_bytes_of(tile) == line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0, 4, 2), "tiles_m=0"), ((4, -1, 2), "tiles_n=-1"), ((4, 4, 0), "slots=0"), ((4, 4, 2, [(0, 2)]), "block=0"),
     ((4, 4, 2, [], [0]), "group=0")],
)  # fmt: skip
def test_impossible_extents_are_refused(arguments, named):
    with pytest.raises(ArgumentValueError, match=f"{named} must be an integer from 1 on"):
        schedules(*arguments)


def test_what_takes_too_long_is_refused():
    with pytest.raises(ArgumentValueError, match=r"10,000 x 10,000 are too many tiles to follow"):
        schedules(10_000, 10_000, 132)
    with pytest.raises(ArgumentValueError, match=r"10,000 x 10,000 are too many tiles to follow"):
        schedule_of("index", 10_000, 10_000, 132)
    (rows, _) = schedules(512, 256, 132)
    with pytest.raises(ArgumentValueError, match=r"L2 would read 402,653,184 lines of 16,384 bytes"):
        schedule_reads(rows, (65536, 65536, 65536), TileSizes(128, 256, 64, 2), 60 << 20)
