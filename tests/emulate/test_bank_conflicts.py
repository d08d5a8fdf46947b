"""Wavefronts and bank conflicts of shared memory against numbers worked out by hand, or an H200's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device
from tilewright.model.memory.banks import shared_wavefronts

LANES = np.arange(32)


@pytest.mark.parametrize(
    ("offsets", "width", "wavefronts", "ideal"),
    [
        (4 * LANES, 4, 1, 1),
        (128 * LANES, 4, 32, 1),  # a column of an unpadded tile of 32 words per row
        (132 * LANES, 4, 1, 1),  # padded by a word
        (0 * LANES, 4, 1, 1),  # broadcast
        (2 * LANES, 2, 1, 1),  # two lanes share a word
        (8 * LANES, 8, 2, 2),
        (16 * LANES, 8, 4, 2),  # every second pair of banks: each half of the warp goes around twice
        (16 * LANES, 16, 4, 4),
        (32 * LANES, 16, 8, 4),
        (128 * LANES, 16, 32, 4),
        (0 * LANES, 16, 2, 2),  # pairs coincide, so that half a warp goes at once
        (16 * (LANES // 2), 16, 2, 2),  # lanes 2i and 2i + 1
        (16 * (LANES // 4 * 2 + LANES % 2), 16, 2, 2),  # lanes 4i and 4i + 2
        (16 * (LANES // 8), 8, 1, 1),
        (np.where(LANES < 8, 16 * LANES, -1), 16, 1, 1),  # a quarter of the warp
        (np.where(LANES % 2, -1, 128 * LANES), 4, 16, 1),
    ],
)
def test_wavefronts_of_a_load(offsets, width, wavefronts, ideal):
    assert shared_wavefronts(offsets[None], width, loads=True) == (wavefronts, ideal)


@settings(max_examples=200)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(-1, 300), min_size=32, max_size=32))
def test_wavefronts_of_a_store_serve_each_bank_once(width, places):
    offsets = np.array([width * place if place >= 0 else -1 for place in places])
    lanes = 32 // max(1, width // 4)
    wavefronts = 0
    for part in (offsets[first : first + lanes] for first in range(0, 32, lanes)):
        words = {byte // 4 for offset in part if offset >= 0 for byte in range(offset, offset + width)}
        wavefronts += max((sum(word % 32 == bank for word in words) for bank in range(32)), default=0)
    counted, ideal = shared_wavefronts(offsets[None], width, loads=False)
    assert counted == wavefronts
    assert ideal <= counted
    assert shared_wavefronts(offsets[None], width, loads=True)[0] <= counted


def test_stores_to_one_place_go_in_parts():
    assert shared_wavefronts(np.zeros((1, 32), np.int64), 16, loads=False) == (4, 4)


@pytest.mark.parametrize(("swizzled", "wavefronts"), [(0, 32), (1, 4)])
def test_a_swizzle_spares_ldmatrix_its_bank_conflicts(swizzled, wavefronts):
    source = """
    extern "C" __global__ void load(unsigned* out) {
      __shared__ __align__(1024) unsigned char tile[32 * 128];
      for (int i = threadIdx.x; i < 1024; i += 32) ((unsigned*)tile)[i] = i;
      __syncwarp();
      int row = threadIdx.x, chunk = SWIZZLED ? 3 ^ row % 8 : 3;
      unsigned a, b, c, d;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                   : "r"((unsigned)__cvta_generic_to_shared(tile + 128 * row + 16 * chunk)));
      out[threadIdx.x] = a + b + c + d;
    }
    """
    device = Device(memory_bytes=1 << 20, count_memory=True)
    kernel = device.load(compile_ptx(source, "sm_90a", f"-DSWIZZLED={swizzled}"))
    counters = device.launch(kernel, (1,), (32,), [device.allocate(128)])
    assert counters.shared_requests["ldmatrix"] == 1
    assert counters.shared_wavefronts["ldmatrix"] == wavefronts
    assert counters.shared_conflicts["ldmatrix"] == wavefronts - 4


@pytest.mark.parametrize(
    ("nbytes", "source", "destination", "taken", "wavefronts", "conflicts"),
    [
        (4, "t * 4", "t * 4", "4", 1, 0),
        (4, "t * 8", "t * 4", "4", 2, 1),
        (4, "t * 128", "t * 4", "4", 32, 31),
        (4, "t * 4", "t * 8", "4", 2, 1),
        (4, "t * 4", "t * 128", "4", 32, 31),
        (4, "0", "t * 4", "4", 32, 31),
        (4, "0", "t * 4", "t == 0 ? 4 : 0", 1, 0),
        (8, "t * 8", "t * 8", "8", 2, 0),
        (8, "t * 128", "t * 8", "8", 32, 30),
        (16, "t * 16", "t * 16", "16", 4, 0),
        (16, "t / 4 * 256 + t % 4 * 16", "t * 16", "16", 8, 4),
        (16, "t * 128", "t * 16", "16", 32, 28),
        (16, "t * 16", "t * 128", "16", 32, 28),
        (16, "t * 16", "(t * 16) ^ (t / 8 * 16)", "16", 4, 0),
        (16, "t * 16", "t * 16", "8", 4, 0),
    ],
)
def test_cp_async_through_l1_has_bank_conflicts_at_either_end(
    nbytes, source, destination, taken, wavefronts, conflicts
):
    """The numbers are an H200's."""
    counters = count_copies("ca", nbytes, source, destination, taken)
    assert counters.shared_requests["cp.async"] == 1
    assert counters.shared_wavefronts["cp.async"] == wavefronts
    assert counters.shared_conflicts["cp.async"] == conflicts


def test_cp_async_past_l1_has_bank_conflicts_where_it_writes():
    assert count_copies("cg", 16, "t * 128", "t * 16", "16").shared_wavefronts["cp.async"] == 4
    assert count_copies("cg", 16, "t * 16", "t * 128", "16").shared_wavefronts["cp.async"] == 32


def test_cp_async_of_some_lanes():
    counters = count_copies("ca", 16, "t * 16", "t * 16", "16", lanes=3)
    assert (counters.shared_wavefronts["cp.async"], counters.shared_conflicts["cp.async"]) == (1, 0)


def count_copies(cache, nbytes, source, destination, taken, lanes=32):
    """Counters of one cp.async by the first lanes of a warp; the other arguments are C++ of the lane t."""
    kernel = """
    extern "C" __global__ void copy(float* out, const char* in) {
      __shared__ __align__(128) char tile[4096];
      int t = threadIdx.x;
      unsigned to = (unsigned)__cvta_generic_to_shared(tile + (DESTINATION));
      if (t < LANES)
        asm volatile("cp.async.CACHE.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(in + (SOURCE)), "n"(BYTES), "r"(TAKEN));
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncwarp();
      if (t < LANES) atomicAdd(out, (float)tile[DESTINATION]);
    }
    """
    texts = {
        "CACHE": cache,
        "DESTINATION": destination,
        "SOURCE": source,
        "BYTES": nbytes,
        "TAKEN": taken,
        "LANES": lanes,
    }
    for name, text in texts.items():
        kernel = kernel.replace(name, str(text))
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.upload(np.zeros(1, np.float32)), device.upload(np.ones(4096, np.uint8))]
    return device.launch(device.load(compile_ptx(kernel)), (1,), (32,), arguments)
