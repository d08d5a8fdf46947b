"""The L2 model against streams whose misses can be counted by hand."""

import pytest

from tilewright.model.chips import CHIPS
from tilewright.model.l2 import Cache, Request, product_requests, simulate, simulate_partitions
from tilewright.model.raster import hilbert_tile, row_major_tile

SMALL = Cache(nbytes=4 * 2 * 64, ways=2, line_bytes=64)
"""Four sets of two lines."""


@pytest.mark.parametrize(
    ("lines", "misses"),
    [
        ([], 0),
        ([0, 0, 0], 1),
        ([0, 1, 2, 3] * 2, 4),
        ([0, 4, 0, 4], 2),  # two lines of one set fit
        ([0, 4, 8] * 3, 9),  # three take turns: least recently used goes, so that none is ever there
        ([0, 4, 0, 8, 0, 4], 4),  # 8 replaces 4, since 0 was used after it
    ],
)
def test_misses_of_a_stream(lines, misses):
    reads = simulate([Request(0, line, 64) for line in lines], SMALL)
    assert (reads.nbytes, reads.missed) == (64 * len(lines), 64 * misses)


@pytest.mark.parametrize(
    ("reads", "rate"),
    [
        ([], 1.0),
        ([(0, 2), (0, 2), (0, 2), (0, 2)], 0.75),
        ([(0, 60), (0, 60), (1, 4), (1, 4)], 0.5),
        ([(0, 90), (1, 10), (1, 10), (1, 10)], 20 / 120),
    ],
)
def test_the_hit_rate_is_that_of_bytes(reads, rate):
    assert simulate([Request(0, line, nbytes) for line, nbytes in reads], SMALL).hit_rate == pytest.approx(rate)


def test_reads_of_a_product_are_its_tiles_in_step():
    """Two CTAs side by side share their tile of A; each tile of one k-block is one line here."""
    sizes = {
        "m": 8, "n": 16, "k": 8, "tile_m": 8, "tile_n": 8, "tile_k": 4, "element_bytes": 2, "line_bytes": 64
    }  # fmt: skip
    order = [(0, 0), (0, 1)]

    def lines(ctas):
        requests = list(product_requests(order, ctas=ctas, **sizes))
        assert {each.nbytes for each in requests} == {64}
        assert {each.cta for each in requests} == set(range(ctas))
        return [each.line for each in requests]

    a, b = [0, 1], [[2, 3], [4, 5]]  # by k-block; B's lines follow A's
    assert lines(2) == [a[0], b[0][0], a[0], b[1][0], a[1], b[0][1], a[1], b[1][1]]
    assert lines(1) == [a[0], b[0][0], a[1], b[0][1], a[0], b[1][0], a[1], b[1][1]]


def test_a_cache_that_holds_everything_misses_each_line_once():
    order = [(m, n) for m in range(6) for n in range(5)]
    requests = list(
        product_requests(
            order, m=6 * 128, n=5 * 256, k=500, tile_m=128, tile_n=256, tile_k=64, element_bytes=2, ctas=7,
            line_bytes=4096,
        )
    )  # fmt: skip
    assert simulate(requests, Cache(1 << 30)).missed == (6 * 128 + 5 * 256) * 500 * 2
    assert len({each.line for each in requests}) == 7 * (6 * 4 + 5 * 8) + 6 * 4 + 5 * 7  # the last k-block has 52


def test_edges_read_what_the_matrices_have():
    """3 x 5 in tiles of 2 x 4 and steps of 2 over k = 3, by hand: the last row of tiles has one row, and so on."""
    order = [(0, 0), (0, 1), (1, 0), (1, 1)]
    requests = list(
        product_requests(order, m=3, n=5, k=3, tile_m=2, tile_n=4, tile_k=2, element_bytes=2, ctas=4, line_bytes=8)
    )
    wide, narrow = [[8, 8, 8], [8, 4], [4, 8, 8], [4, 4]], [[4, 8], [4, 2], [2, 8], [2, 2]]
    assert [each.nbytes for each in requests] == [nbytes for part in wide + narrow for nbytes in part]
    assert simulate(requests, Cache(1 << 20)).missed == (3 + 5) * 3 * 2


def test_hilbert_order_halves_the_misses_of_row_major_order():
    """8192^3 in tiles of 128 x 256 by 128 CTAs: a wave of row-major order needs 4 rows of tiles and all of B."""
    tiles_m, tiles_n, k = 8192 // 128, 8192 // 256, 8192
    sizes = {
        "m": 8192, "n": 8192, "k": k, "tile_m": 128, "tile_n": 256, "tile_k": 64, "element_bytes": 2, "ctas": 128,
        "line_bytes": 16384,
    }  # fmt: skip
    cache = Cache(CHIPS["H200"].l2_bytes, line_bytes=16384)

    def misses(tile):
        order = [tile(index, tiles_m, tiles_n) for index in range(tiles_m * tiles_n)]
        return simulate(product_requests(order, **sizes), cache).missed / 16384

    hilbert, row_major = misses(hilbert_tile), misses(row_major_tile)
    assert row_major == (tiles_m // 4) * (4 + 2 * tiles_n) * (k // 64)  # nothing of a wave is there for the next
    assert hilbert < 0.6 * row_major


@pytest.mark.parametrize(
    ("copies", "requests", "near", "far", "misses"),
    [
        # Lines 0 and 3 are at home in the partition of CTA 0, lines 1 and 2 in that of CTA 1.
        (False, [(0, 0), (0, 0), (1, 0), (1, 0)], 1, 2, 1),
        (True, [(0, 0), (0, 0), (1, 0), (1, 0)], 2, 1, 1),  # the second time, CTA 1 has a copy
        (True, [(0, 1), (0, 1), (1, 1)], 2, 0, 1),  # a line from afar is kept on both sides
        (False, [(0, 1), (0, 1), (1, 1)], 1, 1, 1),
    ],
)
def test_near_and_far(copies, requests, near, far, misses):
    reads = simulate_partitions([Request(cta, line, 64) for cta, line in requests], SMALL, copies=copies)
    assert (reads.near, reads.far, reads.missed) == (64 * near, 64 * far, 64 * misses)
    assert reads.nbytes == 64 * len(requests)


def test_copies_halve_what_fits():
    """Eight lines fit in four sets of two, but not if both sides read all of them and keep copies."""
    requests = [Request(cta, line, 1) for _ in range(3) for line in range(8) for cta in (0, 1)]
    assert simulate_partitions(requests, SMALL, copies=False).missed == 8
    assert simulate_partitions(requests, SMALL, copies=True).missed > 8
