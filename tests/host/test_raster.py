"""Orders of tiles: each takes every tile once, and those that keep together read less."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.model.raster import TILE_ORDERS, blocked_tile, grouped_tile, hilbert_tile, row_major_tile

ORDERS = {
    "row_major": row_major_tile,
    "grouped": lambda index, tiles_m, tiles_n: grouped_tile(index, tiles_m, tiles_n, 3),
    "blocked": lambda index, tiles_m, tiles_n: blocked_tile(index, tiles_m, tiles_n, 3, 2),
    "hilbert": hilbert_tile,
}

EXTENTS = st.integers(1, 40)


def order(name, tiles_m, tiles_n):
    return [ORDERS[name](index, tiles_m, tiles_n) for index in range(tiles_m * tiles_n)]


def test_every_schedule_is_tested():
    assert set(TILE_ORDERS) < set(ORDERS)


@pytest.mark.parametrize("name", ORDERS)
@given(EXTENTS, EXTENTS)
def test_every_tile_is_taken_once(name, tiles_m, tiles_n):
    everything = [(m, n) for m in range(tiles_m) for n in range(tiles_n)]
    assert sorted(order(name, tiles_m, tiles_n)) == everything


def test_orders_of_a_small_matrix():
    assert order("row_major", 2, 3) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert order("grouped", 4, 2) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    assert order("blocked", 3, 3) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (0, 2), (1, 2), (2, 2)]
    assert order("hilbert", 2, 2) == [(0, 0), (0, 1), (1, 1), (1, 0)]


@pytest.mark.parametrize("exponent", range(1, 6))
def test_hilberts_curve_goes_from_neighbor_to_neighbor(exponent):
    tiles = order("hilbert", 1 << exponent, 1 << exponent)
    assert all(abs(m - next_m) + abs(n - next_n) == 1 for (m, n), (next_m, next_n) in pairwise(tiles))


@given(st.integers(9, 16), st.integers(1, 16))
def test_what_lies_outside_is_left_out_of_the_curve(tiles_m, tiles_n):
    inside = [(m, n) for m, n in order("hilbert", 16, 16) if m < tiles_m and n < tiles_n]
    assert order("hilbert", tiles_m, tiles_n) == inside


def test_a_wave_of_a_blocked_order_is_a_block():
    assert {blocked_tile(index, 64, 32, 16, 8) for index in range(128)} == {(m, n) for m in range(16) for n in range(8)}


def test_waves_that_keep_together_read_less():
    """64 CTAs on 32 x 32 tiles read 2 rows of A and 32 columns of B by rows, 8 and 8 along Hilbert's curve."""

    def reads(name):
        tiles = order(name, 32, 32)
        waves = [tiles[first : first + 64] for first in range(0, 1024, 64)]
        return {len({m for m, _ in wave}) + len({n for _, n in wave}) for wave in waves}

    assert reads("row_major") == {2 + 32}
    assert reads("hilbert") == {8 + 8}
