"""Counters of a launch against numbers worked out by hand."""

import numpy as np
import pytest

from support.nvrtc import compile_ptx
from tilewright.emulator import Device

COPY = """
extern "C" __global__ void copy(float* out, const float* in, int stride) {
  __shared__ float shared[32 * 33];
  int t = threadIdx.x;
  shared[t * SHARED_STRIDE] = in[t * stride];
  __syncwarp();
  out[t] = shared[t * SHARED_STRIDE];
}
"""


def count(stride, shared_stride, threads=32):
    device = Device(memory_bytes=1 << 20, count_memory=True)
    arguments = [device.allocate(4096), device.upload(np.zeros(8192, np.float32)), stride]
    kernel = device.load(compile_ptx(COPY, "sm_90a", f"-DSHARED_STRIDE={shared_stride}"))
    return device.launch(kernel, (3,), (threads,), arguments).as_dict()


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (0, 1)])
def test_sectors_of_a_load(stride, sectors):
    counters = count(stride, 1)
    assert counters["global_requests"] == {"ld": 3, "st": 3}
    assert counters["global_sectors"] == {"ld": 3 * sectors, "st": 12}


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts(stride, wavefronts):
    counters = count(1, stride)
    assert counters["shared_requests"] == {"ld": 3, "st": 3}
    assert counters["shared_wavefronts"] == {"ld": 3 * wavefronts, "st": 3 * wavefronts}


def test_wide_accesses_go_in_phases():
    source = """
    struct __align__(16) Four { float x, y, z, w; };
    extern "C" __global__ void wide(Four* out) {
      __shared__ Four shared[64];
      shared[threadIdx.x] = shared[threadIdx.x + 32] = Four{1, 2, 3, (float)threadIdx.x};
      __syncwarp();
      out[threadIdx.x] = shared[threadIdx.x * 2];
    }
    """
    device = Device(memory_bytes=1 << 20, count_memory=True)
    counters = device.launch(device.load(compile_ptx(source)), (1,), (32,), [device.allocate(512)])
    assert counters.shared_wavefronts == {"ld": 8, "st": 8}
    assert counters.global_sectors == {"st": 16}


def test_instructions_are_counted_per_warp():
    source = """
    extern "C" __global__ void work(float* out, int n) {
      float sum = 0;
      for (int i = 0; i < n; i++) sum = sum * 1.5f + 1;
      if (threadIdx.x == 0) out[blockIdx.x] = sum;
      __syncthreads();
    }
    """
    device = Device(memory_bytes=1 << 20)
    kernel = device.load(compile_ptx(source))
    counters = device.launch(kernel, (5,), (96,), [device.allocate(20), 7])
    assert counters.warp_instructions["fma.rn.f32"] == 5 * 3 * 7
    assert counters.warp_instructions["st.global.f32"] == 5
    assert counters.barrier_waits == 15


def test_progress_ends_at_one():
    seen = []
    device = Device(memory_bytes=1 << 24, progress=seen.append)
    source = 'extern "C" __global__ void fill(float* out) { out[blockIdx.x * 256 + threadIdx.x] = 1; }'
    device.launch(device.load(compile_ptx(source)), (1000,), (256,), [device.allocate(1 << 20)])
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == 1
