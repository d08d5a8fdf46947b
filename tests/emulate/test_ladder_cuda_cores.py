"""What each rung on the CUDA cores demonstrates, as the emulator counts it; every number is derived, none copied."""

from functools import cache

import numpy as np
import pytest

import tilewright as tw
from support.lines import counts_at
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.simt import SimtConfig

M, N, K = 128, 256, 32

LARGE_TILES = ("register_tiles", "double_buffered", "async_copies", "warp_tiles")

WARP_LOADS = M * N * K // 32
"""Warps' steps along k where each thread makes one element of out."""


@cache
def count(kernel, config=None):
    """The counters of one M x N x K product."""
    backend = EmulatedBackend(count_memory=True)
    a, b = np.ones((M, K), np.float32), np.ones((K, N), np.float32)
    plan = tw.plan(a, b, kernel=kernel, config=config, backend=backend)
    out, counters = plan.counted(a, b)
    assert (out == K).all()
    return counters


def test_uncoalesced_reads_a_sector_for_each_lane():
    """32 rows of A, 128 bytes apart: 32 sectors. The same element of B for all lanes: 1. 32 rows of out: 32."""
    counters = count("uncoalesced")
    assert counters.global_requests == {"ld": 2 * WARP_LOADS, "st": M * N / 32}
    assert counters.global_sectors["ld"] == WARP_LOADS * (32 + 1)
    assert counters.sectors_per_request == {"ld": 16.5, "st": 32}


def test_coalesced_reads_whole_sectors():
    """The same element of A for all lanes: 1 sector. 32 neighbors of B or out: 128 bytes, 4 sectors."""
    counters = count("coalesced")
    assert counters.global_requests == count("uncoalesced").global_requests
    assert counters.global_sectors["ld"] == WARP_LOADS * (1 + 4)
    assert counters.sectors_per_request == {"ld": 2.5, "st": 4}


def loaded_bytes(kernel):
    return 32 * count(kernel).global_sectors["ld"]


def test_each_tile_reads_its_operands_once():
    """A is read once for each tile along n, B once for each tile along m: 32 times less than by single elements."""

    def by_tiles(tile):
        return 4 * (M * K * N // tile + K * N * M // tile)

    assert loaded_bytes("smem_tiles") == by_tiles(32)
    assert all(loaded_bytes(kernel) == by_tiles(128) for kernel in LARGE_TILES)
    # For 32 products: 1 + 4 sectors where they are single; two tiles of 4096 bytes are good for 32 * 32 * 32.
    assert loaded_bytes("coalesced") / loaded_bytes("smem_tiles") == (32 + 128) / (2 * 4096 / (32 * 32))


def test_small_tiles_read_two_words_of_smem_for_each_product():
    """A warp's lanes share one element of A, a broadcast, and read 32 neighbors of B: no conflicts, but one each."""
    line = counts_at(count("smem_tiles"), "ladder/smem_tiles.cuh", "sum = fmaf(a_tile[row][k], b_tile[k][column], sum)")
    assert line.shared_requests == {"ld": 2 * WARP_LOADS}
    assert line.shared_conflicts == {"ld": 0}


@pytest.mark.parametrize("kernel", ["register_tiles", "double_buffered", "async_copies"])
def test_register_tiles_reuse_what_they_read_and_meet_in_banks(kernel):
    """For four steps along k a warp makes 4 * 64 * 32 products.

    For them it reads 8 float4 of A, along k, each at two addresses, which go together with their neighbors: 2
    wavefronts. And 4 * 2 float4 of B: 16 lanes are 8 floats apart, so that the 8 lanes of a quarter of a warp meet in
    16 of the 32 banks, twice: 8 wavefronts instead of 4.
    """
    counters = count(kernel)
    steps = M * N * K // (4 * 64 * 32)
    a_line = counts_at(counters, "ladder/thread_tile.cuh", "a[i] = a_tile[m + i][k]")
    b_line = counts_at(counters, "ladder/thread_tile.cuh", "b[j] = b_tile[k][n + j]")
    assert a_line.shared_requests == {"ld": 8 * steps}
    assert a_line.shared_wavefronts == {"ld": 8 * 2 * steps}
    assert a_line.shared_conflicts == {"ld": 0}
    assert b_line.shared_requests == {"ld": 8 * steps}
    assert b_line.shared_wavefronts == {"ld": 8 * 8 * steps}
    assert b_line.shared_conflicts == {"ld": 8 * 4 * steps}


def test_a_second_buffer_spares_a_barrier_a_tile():
    """Each of the 2 CTAs goes through 2 tiles along k, with 8 warps: two barriers a tile, or one."""
    tiles, warps = 2 * K // 16, 8
    assert count("register_tiles").barrier_waits == 2 * tiles * warps
    assert count("double_buffered").barrier_waits == tiles * warps
    assert count("async_copies").barrier_waits == tiles * warps


def test_asynchronous_copies_pass_no_registers():
    """Every 16 bytes of the tiles by one lane of a cp.async; quarters of a warp write 128 bytes side by side."""
    counters, requests = count("async_copies"), loaded_bytes("async_copies") // (16 * 32)
    assert counters.shared_requests["cp.async"] == requests
    assert counters.shared_wavefronts["cp.async"] == 4 * requests
    assert counters.shared_requests["st"] == 0
    assert count("double_buffered").shared_requests["st"] == requests
    assert counters.warp_instructions["cp.async.commit_group"] == 2 * K // 16 * 8


def test_warp_tiles_read_without_conflicts_and_pay_where_they_transpose():
    """For one step along k a warp makes 128 * 32 products.

    For them it reads 2 float4 of A: lanes in fours have the same address, which makes 2 wavefronts. And 4 float4 of B:
    4 neighboring ones for the lanes of a row, 1 wavefront for each quarter of a warp. That is half as many wavefronts
    for a product as with 8x8. When A is transposed, the four lanes that hold a row store 4 * 128 words apart, to the
    same bank; the warp's 8 rows go to 8 banks: 4 wavefronts.
    """
    counters = count("warp_tiles")
    steps = M * N * K // (128 * 32)
    a_line = counts_at(counters, "ladder/warp_tiles.cuh", "load4(&a_tile[k][m + i])")
    b_line = counts_at(counters, "ladder/warp_tiles.cuh", "load4(&b_tile[k][column(j)])")
    assert a_line.shared_requests == {"ld": 2 * steps}
    assert a_line.shared_wavefronts == {"ld": 2 * 2 * steps}
    assert b_line.shared_requests == {"ld": 4 * steps}
    assert b_line.shared_wavefronts == {"ld": 4 * 4 * steps}
    assert counters.shared_conflicts["ld"] == 0
    assert count("register_tiles").shared_wavefronts["ld"] == 2 * counters.shared_wavefronts["ld"]
    transposing = M * K * (N // 128) // 32  # requests of 32 floats
    for element in "xyzw":
        line = counts_at(counters, "ladder/warp_tiles.cuh", f"fetched.a[pass].{element}")
        assert line.shared_requests == {"st": transposing // 4}
        assert line.shared_wavefronts == {"st": 4 * transposing // 4}


@pytest.mark.parametrize("tile_k", [8, 16, 32])
def test_padded_and_flipped_rows_part_what_transposing_stores_bring_together(tile_k):
    """simt's rows are 4 words longer: lanes 4 rows apart in k lie 16 banks apart, and each second pair is flipped.

    Lanes that differ in bit 0 read the same of A, and those that differ in bit 1 the same of B: 2 wavefronts each.
    """
    config = SimtConfig(128, 128, tile_k, 64, 64, 16, 8)
    counters = count("simt", config)
    stores = counts_at(counters, "mainloop/staged_copy.cuh", "store_shared(to + i * of_element, staged[pass][i])")
    tiles = K // tile_k + 1  # one more is fetched, of zeros
    assert stores.shared_requests == {"st": M * tile_k * (N // 128) * tiles / 32}
    assert stores.shared_wavefronts == stores.shared_requests
    assert counters.shared_conflicts["ld"] == 0
    for operand in "ab":
        reads = counts_at(counters, "kernels/simt.cuh", f"({operand}, {operand}_tile, ")
        requests, wavefronts = reads.shared_requests["ld"], reads.shared_wavefronts["ld"]
        assert 0.98 * 2 * requests < wavefronts <= 2 * requests  # a few are narrower
