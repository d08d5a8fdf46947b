"""Tilings, loop orders and chains against hand arithmetic and against loops that count."""

import json
import math
from itertools import product
from pathlib import Path

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.tiling.chains import chain_clocks, chains_to_fill, operation_clocks
from tilewright.model.tiling.levels import Block, Blocking, best_fma_per_word, blocks_of, fma_per_word, levels
from tilewright.model.tiling.loop_orders import INDICES, ORDERS, loop_order

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "results/fma_clocks_h200.json"


@pytest.mark.parametrize(("m", "n", "expected"), [(1, 1, 0.5), (1, 4, 0.8), (2, 2, 1), (8, 8, 4), (8, 16, 16 / 3)])
def test_the_published_multiply_adds_per_word(m, n, expected):
    assert fma_per_word(Block(m, n)) == pytest.approx(expected)


def test_of_all_blocks_with_as_many_elements_the_square_is_best():
    found = {block: fma_per_word(block) for block in blocks_of(64)}
    assert list(found) == [(1, 64), (2, 32), (4, 16), (8, 8), (16, 4), (32, 2), (64, 1)]
    assert len(blocks_of(128)) == 8
    with pytest.raises(ArgumentValueError, match="give 16,777,216 or fewer"):
        blocks_of(10**16)
    assert max(found, key=found.get) == (8, 8)
    assert found[8, 8] == best_fma_per_word(64)
    assert best_fma_per_word(128) > fma_per_word(Block(8, 16))


def test_the_levels_of_a_wgmma_config():
    """4096^3 in tiles of 128 x 256, two of which along m share B: L2 sees 256 x 256."""
    blocking = Blocking(Block(128, 256), Block(256, 256), Block(64, 256))
    gmem, l2, smem = levels(4096, 4096, 4096, blocking)
    square = 4096 * 4096
    assert gmem.read_bytes == 2 * 2 * square
    assert gmem.intensity == 4096 / 3
    assert l2.read_bytes == 2 * (16 + 16) * square
    assert smem.read_bytes == 2 * (16 + 64) * square
    assert smem.written_bytes == 0
    assert smem.intensity == 2 * 64 * 256 / (64 + 256) / 2
    assert [level.reader for level in (gmem, l2)] == ["the GPU", "a cluster"]
    assert l2.as_dict()["fma_per_word"] == 128


def test_a_block_of_8_by_8_does_2_flop_for_a_byte_of_fp32():
    """docs/machine/tiling.md; the GEMM chapter gives 4."""
    blocking = Blocking(Block(128, 128), Block(128, 128), Block(16, 128), Block(8, 8))
    assert levels(1024, 1024, 1024, blocking, 4, 4)[-1].intensity == 2


def test_edges_read_what_is_there():
    """100 x 60 in tiles of 64: two rows of tiles and one column, so A is read once and B twice."""
    blocking = Blocking(Block(64, 64), Block(64, 64))
    _, l2 = levels(100, 60, 32, blocking, nbytes=4, out_nbytes=4)
    assert l2.read_bytes == 4 * 32 * (100 + 2 * 60)
    assert l2.reader == "a CTA"


@pytest.mark.parametrize(("m", "n", "k"), [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_extents_below_one(m, n, k):
    with pytest.raises(ArgumentValueError, match="must be an integer from 1"):
        levels(m, n, k, Blocking(Block(1, 1), Block(1, 1)))
    with pytest.raises(ArgumentValueError, match="must be an integer from 1"):
        loop_order("mnk", m, n, k)


def counted(order, extents):
    """Loads by operand of loops that keep the last element of each in a register, and the last distance they move."""
    loads, held, strides = dict.fromkeys(INDICES, 0), dict.fromkeys(INDICES), dict.fromkeys(INDICES, 0)
    for turn in product(*(range(extents[loop]) for loop in order)):
        at = dict(zip(order, turn, strict=True))
        for name, (row, column) in INDICES.items():
            place = at[row] * extents[column] + at[column]
            if held[name] != place:
                loads[name] += 1
                strides[name] = place - held[name] if turn[-1] else strides[name]
                held[name] = place
    return loads, strides


@pytest.mark.parametrize("order", ORDERS)
def test_orders_against_loops_that_count(order):
    found = loop_order(order, 3, 4, 5)
    assert (found.loads, found.strides) == counted(order, {"m": 3, "n": 4, "k": 5})
    assert found.stores == {"C": found.loads["C"]}


def test_k_outermost_saves_a_and_costs_more_of_c():
    """The article counts N^2 loads of A instead of N^3 as half; with C, half as much again crosses as before."""
    n = 64
    inner, outer = loop_order("mnk", n, n, n), loop_order("kmn", n, n, n)
    assert (inner.loads["A"], outer.loads["A"]) == (n**3, n**2)
    assert inner.accesses == 2 * n**3 + 2 * n**2
    assert outer.accesses == 3 * n**3 + n**2
    assert (inner.kept, outer.kept) == ("C", "A")
    assert outer.form == "a sum of outer products"
    assert len(ORDERS) == math.factorial(3)
    with pytest.raises(ArgumentValueError, match="mnk, mkn"):
        loop_order("nmkk", 1, 1, 1)


def test_the_published_chains():
    assert chain_clocks(3) == 12
    assert chain_clocks(1, chains=3) == 6


def steps(length, chains, latency, interval):
    """The same by a scheduler that issues the first operation that is ready, chain by chain."""
    ready, clock = [0] * chains, 0
    for _ in range(length):
        for chain in range(chains):
            clock = max(clock, ready[chain])
            ready[chain] = clock + latency
            clock += interval
    return max(ready)


@pytest.mark.parametrize("interval", [1, 2])
@pytest.mark.parametrize("chains", [1, 2, 3, 4, 5, 8])
def test_chains_against_a_scheduler(chains, interval):
    assert chain_clocks(7, chains, 4, interval) == steps(7, chains, 4, interval)


def greedy(length, chains, warps, latency):
    """Clocks of a scheduler that keeps to a warp until it has to wait, and loses one as it goes on with another."""
    left = [[length] * chains for _ in range(warps)]
    ready = [[0] * chains for _ in range(warps)]
    warp = clock = 0
    while any(map(any, left)):
        chain = max(range(chains), key=lambda each: (left[warp][each], -each))
        if left[warp][chain] and ready[warp][chain] <= clock:
            left[warp][chain] -= 1
            ready[warp][chain] = clock + latency
        else:
            warp = (warp + 1) % warps
        clock += 1
    return max(map(max, ready))


@pytest.mark.parametrize("warps", [2, 3, 4])
@pytest.mark.parametrize("chains", [1, 2, 3, 4, 8])
def test_chains_of_several_warps_against_a_scheduler(chains, warps):
    length = 2000
    assert chain_clocks(length, chains, warps=warps) == pytest.approx(greedy(length, chains, warps, 4), rel=0.01)


def test_the_clocks_of_an_h200():
    cases = json.loads(RECORD.read_text())["cases"]
    assert len(cases) == 24
    for case in cases:
        chains, warps, median = case["chains"], case["warps"], case["median"]
        of_scheduler = -(-warps // 4)
        clocks = operation_clocks(chains, warps=of_scheduler)
        assert median == pytest.approx(clocks, rel=0.22 if (chains, warps) == (1, 8) else 0.11)


def test_four_chains_fill_a_scheduler():
    assert chains_to_fill() == 4
    assert chain_clocks(100, 4) == 4 * 100 + 3
    assert chains_to_fill(4, 2) == 2
    with pytest.raises(ArgumentValueError, match="chains=0 must be an integer from 1 to"):
        chain_clocks(1, 0)
