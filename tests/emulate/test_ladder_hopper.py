"""What each rung on wgmma demonstrates, as the emulator counts it; every number is derived, none copied."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.lines import counts_at
from support.rungs import RUNGS, product
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator import Device
from tilewright.hardware import H200
from tilewright.jit.compile import compile
from tilewright.jit.source import TranslationUnit, reachable_headers
from tilewright.kernels.ladder import LADDER

M, N, K = 512, 512, 192

BYTES = 2 * K  # of a row of A, or of B, which is stored (n, k)

HOPPER = {name: kernel for name, kernel in RUNGS.items() if LADDER[name].road == "Hopper"}


def configs_of(name):
    """What the rung can be asked for."""
    return HOPPER[name].configs(product(HOPPER[name]), H200)


PERSISTENT = [name for name in HOPPER if hasattr(configs_of(name)[0], "schedule")]


def multiply(name, config=None, **options):
    """The counters of one M x N x K product of small integers on two SMs, which is right and breaks no rule."""
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-2, 3, (rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    backend = EmulatedBackend(H200._replace(sm_count=2), **options)
    plan = tw.plan(a, b.T, kernel=name, config=config, backend=backend)
    out, counters = plan.counted(a, b.T)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    assert np.array_equal(out, expected)
    assert not backend.device.reports
    return counters


@cache
def count(name):
    return multiply(name, count_memory=True)


def at(name, header, text):
    """The counts of one line of a CUDA header."""
    return counts_at(count(name), header, text)


@pytest.mark.parametrize("asynchrony", ["eager", "lazy", "random"])
@pytest.mark.parametrize("name", PERSISTENT)
def test_ctas_that_stay_take_tiles_in_any_order(name, asynchrony):
    for config in configs_of(name):
        multiply(name, config, checks=True, asynchrony=asynchrony)


def test_an_unknown_schedule_is_refused():
    config = type(configs_of("wgmma_hilbert")[0])("zigzag")
    with pytest.raises(tw.ConfigError, match="'row_major', 'blocked' or 'hilbert'"):
        multiply("wgmma_hilbert", config)


SWIZZLED_TILE = """
#include "layout/swizzle.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"

// Reads the 16-byte chunks of a (32, 64) tile that TMA has brought, eight lanes at a time: chunks
// of one row with by_row, else the same chunk of eight rows.
extern "C" __global__ void chunks(tilewright::TensorMap const __grid_constant__ map, uint4* out,
                                  int by_row, int swizzled) {
  using namespace tilewright;
  __shared__ alignas(1024) uint8_t tile[32 * 128];
  __shared__ uint64_t loaded;
  const uint32_t barrier = shared_address(&loaded);
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_arrive_expect_tx(barrier, sizeof(tile));
    tma_load(shared_address(tile), map, 0, 0, 0, barrier);
  }
  __syncthreads();
  mbarrier_wait(barrier, 0);
  const int fast = threadIdx.x % 8, slow = threadIdx.x / 8;
  const int row = by_row ? slow : slow / 8 * 8 + fast, chunk = by_row ? fast : slow % 8;
  const int offset = swizzled ? SwizzledRows<64>::offset(row, chunk * 8) : row * 128 + chunk * 16;
  out[row * 8 + chunk] = *reinterpret_cast<uint4*>(tile + offset);
}
"""


@pytest.mark.parametrize(
    ("swizzle", "by_row", "conflicts"),
    [
        (128, True, 0),
        (128, False, 0),
        (0, True, 0),
        (0, False, 7),  # rows are 128 bytes, all 32 banks, apart: the chunks of eight rows take turns
    ],
)
def test_tiles_that_tma_swizzles_are_read_without_conflicts_by_rows_and_by_columns(swizzle, by_row, conflicts):
    device = Device(memory_bytes=1 << 20, count_memory=True, checks=True)
    unit = TranslationUnit("chunks", SWIZZLED_TILE, reachable_headers(SWIZZLED_TILE))
    tile = np.arange(32 * 64, dtype=np.int16)
    source, out = device.upload(tile), device.allocate(tile.nbytes)
    tensor_map = device.tensor_map(
        address=source, dtype=np.int16, shape=(64, 32, 1), strides=(128, 4096), box=(64, 32, 1), swizzle=swizzle
    )
    kernel = device.load(compile(unit, H200.virtual_arch).ptx)
    counters = device.launch(kernel, (1,), (256,), [tensor_map, out, int(by_row), int(swizzle == 128)])
    assert np.array_equal(device.read(out, tile.nbytes).view(np.int16), tile)
    # 8 warps, whose 16-byte reads go by eight lanes: 4 wavefronts, each of which conflicts repeat.
    assert counters.shared_requests["ld"] == 8
    assert counters.shared_conflicts["ld"] == 8 * 4 * conflicts


@pytest.mark.parametrize("name", HOPPER)
def test_each_tile_reads_its_rows_of_a_and_its_columns_of_b(name):
    """A once for each tile along n, B once for each tile along m, or for each cluster."""
    kernel = HOPPER[name]
    a, b = M * BYTES * N // kernel.tile_n, N * BYTES * M // (kernel.tile_m * kernel.cluster_m)
    assert count(name).tma_read_bytes == a + b


def test_a_larger_tile_halves_what_is_read_and_a_wider_one_takes_a_quarter_off():
    """Bytes go with 1 / tile_m + 1 / tile_n: 2/64, 2/128, and 1/128 + 1/256, which is 3/4 of that before."""
    small, large, wide = (
        count(name).tma_read_bytes for name in ("wgmma_basic", "wgmma_larger_tile", "wgmma_two_consumers")
    )
    assert small == 2 * large
    assert 4 * wide == 3 * large


def test_a_wider_tile_reads_its_rows_of_a_from_shared_memory_half_as_often():
    """A wgmma of n columns reads 64 rows of A and n of B: (1 + 64 / n) of B's bytes, for 64 of the rows of out."""
    basic, large, wide = (
        count(name).wgmma_read_bytes for name in ("wgmma_basic", "wgmma_larger_tile", "wgmma_two_consumers")
    )
    of_b = N * BYTES * M // 64
    assert (basic, large, wide) == (of_b * 2, of_b * 3 // 2, of_b * 5 // 4)


def test_multicast_reads_b_once_for_both_ctas():
    """Each CTA reads half of B, which is delivered twice, and A as before: two thirds of all reads remain."""
    load = at("wgmma_multicast", "ladder/wgmma_multicast.cuh", "tma_load_multicast(")
    alone = at("wgmma_lean_barriers", "ladder/wgmma_lean_barriers.cuh", "tma_load(shared_address(slot.b)")
    assert alone.tma_read_bytes == N * BYTES * M // 128
    assert 2 * load.tma_read_bytes == alone.tma_read_bytes
    assert load.multicast_saved_bytes == load.tma_read_bytes
    assert load.tma_loaded_bytes == alone.tma_loaded_bytes
    multicast, lean = count("wgmma_multicast"), count("wgmma_lean_barriers")
    assert 3 * multicast.tma_read_bytes == 2 * lean.tma_read_bytes


def arrivals(name):
    """Instructions of warps that arrive at mbarriers."""
    return sum(n for opcode, n in count(name).warp_instructions.items() if opcode.startswith("mbarrier.arrive"))


def test_lean_barriers_are_reached_by_three_warps_in_a_k_block():
    """Of nine warps (eight of consumers and the producer's) eight at full and nine at empty, and the announcement.

    Lean: the announcement, and one warp of each consumer.
    """
    ctas, k_blocks = 2, (M // 128) * (N // 256) * (K // 64)
    at_first = ctas * 3 * 8  # consumers at each slot's empty
    assert arrivals("wgmma_persistent") == k_blocks * (8 + 9 + 1) + at_first
    assert arrivals("wgmma_lean_barriers") == k_blocks * (1 + 2)


def test_fewer_ctas_that_make_no_more_waves():
    """512 tiles on 132 SMs are four waves, and of 128 CTAs too; 64 clusters of two likewise."""
    for name in PERSISTENT:
        kernel = HOPPER[name]
        problem = product(kernel)._replace(m=4096, n=4096)
        constants = kernel.constants(configs_of(name)[0], problem)
        shape = kernel.launch_shape(constants, problem, H200)
        assert (shape.grid, shape.cluster) == (128, kernel.cluster_m)


@pytest.mark.parametrize("name", HOPPER)
def test_results_leave_in_whole_sectors_or_by_tma(name):
    """A lane stores 8 bytes, four lanes 32 of a row, a request 8 rows: 8 sectors."""
    counters = count(name)
    if hasattr(HOPPER[name], "out_map"):
        assert not counters.global_requests
        assert counters.tma_stored_bytes == 2 * M * N
    else:
        assert counters.global_requests == {"st": 2 * M * N // 256}
        assert counters.sectors_per_request == {"st": 8}
        assert counters.tma_stored_bytes == 0


def test_rows_of_512_bytes_meet_in_one_bank():
    """Eight lanes of a store, one in each of eight rows, use the same bank."""
    line = at("wgmma_async_store", "ladder/wgmma_async_store.cuh", "reinterpret_cast<uint32_t*>(&staging")
    assert line.shared_requests == {"st": 2 * M * N // 128}
    assert line.shared_conflicts == {"st": 7 * 2 * M * N // 128}


def test_stmatrix_writes_four_blocks_at_once_without_conflicts():
    """512 bytes, four wavefronts of 32 banks, in one instruction: a quarter of those before."""
    line = at("wgmma_stmatrix", "ladder/wgmma_stmatrix.cuh", "stmatrix_x4(")
    assert line.shared_requests == {"stmatrix": 2 * M * N // 512}
    assert line.shared_wavefronts == {"stmatrix": 2 * M * N // 128}
    assert line.shared_conflicts == {"stmatrix": 0}


def test_every_rung_multiplies_as_much():
    """wgmma is counted by warpgroup: whatever the tile, each multiply-add is there once."""
    for name in HOPPER:
        assert count(name).tensor_flops == 2 * M * N * K
