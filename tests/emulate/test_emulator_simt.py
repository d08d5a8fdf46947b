"""SIMT kernels: control flow, shared memory, divergence, warp exchange and atomics."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device


def run(
    source, arrays, scalars=(), *, grid=1, block=32, cluster=(1, 1, 1), shared_bytes=0, options=(), **device_options
):
    """Compile and launch a kernel of array pointers followed by 32-bit scalars; returns the arrays after it."""
    device = Device(memory_bytes=1 << 26, **device_options)
    addresses = [device.upload(array) for array in arrays]
    arguments = [*addresses, *(np.asarray(scalar).tobytes() for scalar in scalars)]
    kernel = device.load(compile_ptx(source, "sm_90a", *options))
    grid, block = (extent if isinstance(extent, tuple) else (extent,) for extent in (grid, block))
    device.launch(kernel, grid, block, arguments, cluster=cluster, shared_bytes=shared_bytes)
    return [
        device.read(address, array.nbytes).view(array.dtype).reshape(array.shape)
        for address, array in zip(addresses, arrays, strict=True)
    ]


def int32(value):
    return np.int32(value)


SAXPY = """
extern "C" __global__ void saxpy(float* y, const float* __restrict__ x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def test_saxpy_leaves_the_tail_alone():
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, 1000), np.float32)
    result, _ = run(SAXPY, [y, x], [np.float32(2.5), int32(900)], grid=8, block=128)
    expected = y.copy()
    expected[:900] = (2.5 * x[:900].astype(np.float64) + y[:900]).astype(np.float32)
    np.testing.assert_array_equal(result, expected)


TILED_GEMM = """
extern "C" __global__ void gemm(float* c, const float* a, const float* b, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && k0 + threadIdx.x < k ? a[row * k + k0 + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = column < n && k0 + threadIdx.y < k ? b[(k0 + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
"""


@pytest.mark.parametrize("shape", [(16, 16, 16), (33, 70, 41), (1, 100, 3)])
def test_tiled_gemm(shape):
    m, n, k = shape
    generator = np.random.default_rng(1)
    a = generator.integers(-8, 8, (m, k)).astype(np.float32)
    b = generator.integers(-8, 8, (k, n)).astype(np.float32)
    grid = (-(-n // 16), -(-m // 16))
    c, _, _ = run(TILED_GEMM, [np.zeros((m, n), np.float32), a, b], map(int32, shape), grid=grid, block=(16, 16))
    np.testing.assert_array_equal(c, a @ b)


def test_divergent_loops_and_early_exit():
    source = """
    extern "C" __global__ void collatz(int* steps, const int* start, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      int count = 0;
      for (unsigned value = start[i]; value != 1; count++) {
        if (value % 2) value = 3 * value + 1; else value /= 2;
        if (count == 200) break;
      }
      steps[i] = count;
    }
    """
    start = np.arange(1, 301, dtype=np.int32)

    def collatz(value):
        count = 0
        while value != 1 and count != 200:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        return count

    steps, _ = run(source, [np.zeros(300, np.int32), start], [int32(300)], grid=3, block=128)
    np.testing.assert_array_equal(steps, [collatz(int(value)) for value in start])


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("threads", "shuffle", "undefined"),
    [
        (40, "__shfl_down_sync(~0u, v, 1)", [39]),  # lane 8 of the second warp is not there
        (32, "t < 16 ? __shfl_xor_sync(0xffffu, v, 16) : __shfl_xor_sync(0xffff0000u, v, 1)", range(16)),
        (32, "__shfl_sync(~0u, v, (t + 5) % 32)", []),
        (64, "t < 48 ? __shfl_up_sync(t < 32 ? ~0u : 0xffffu, v, 3) : v", []),
    ],
)
def test_a_shuffle_from_a_lane_that_takes_no_part_gives_poison(threads, shuffle, undefined):
    source = f"""
    extern "C" __global__ void exchange(int* out) {{
      int t = threadIdx.x, v = 100 + t;
      out[t] = {shuffle};
    }}
    """
    device = Device(memory_bytes=1 << 16)
    out = device.allocate(4 * threads)
    device.launch(device.load(compile_ptx(source)), (1,), (threads,), [out])
    assert [report.kind for report in device.reports] == ["uninitialized-register"] * bool(undefined)
    values = device.read(out, 4 * threads).view(np.int32)
    assert np.flatnonzero(values == -1).tolist() == list(undefined)


def test_shuffles_and_votes():
    source = """
    extern "C" __global__ void exchange(int* out, const int* in) {
      int t = threadIdx.x, v = in[t], lane = t % 32;
      out[0 * 64 + t] = __shfl_xor_sync(~0u, v, 5);
      out[1 * 64 + t] = __shfl_up_sync(~0u, v, 3);
      out[2 * 64 + t] = __shfl_down_sync(~0u, v, 7, 16);
      out[3 * 64 + t] = __shfl_sync(~0u, v, v & 31);
      out[4 * 64 + t] = __ballot_sync(~0u, v & 1);
      out[5 * 64 + t] = __any_sync(~0u, v == 7) * 2 + __all_sync(~0u, v >= 0);
      out[6 * 64 + t] = __reduce_add_sync(~0u, v) ^ __reduce_max_sync(~0u, v);
      out[7 * 64 + t] = __match_any_sync(~0u, v & 3);
      int half = 0;
      if (lane < 16) half = __shfl_xor_sync(0xffff, v, 1) + __reduce_min_sync(0xffffu, v);
      out[8 * 64 + t] = half;
    }
    """
    v = np.random.default_rng(2).integers(0, 1000, 64).astype(np.int32)
    out, _ = run(source, [np.zeros((9, 64), np.int32), v], block=64)
    t = np.arange(64)
    lane, warp = t % 32, t // 32 * 32
    np.testing.assert_array_equal(out[0], v[warp + (lane ^ 5)])
    np.testing.assert_array_equal(out[1], v[np.where(lane >= 3, t - 3, t)])
    np.testing.assert_array_equal(out[2], v[np.where(lane % 16 + 7 < 16, t + 7, t)])
    np.testing.assert_array_equal(out[3], v[warp + (v & 31)])
    by_warp = v.reshape(2, 32)
    ballots = ((by_warp & 1).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)
    np.testing.assert_array_equal(out[4].view(np.uint32), ballots.repeat(32))
    np.testing.assert_array_equal(out[5], ((by_warp == 7).any(1) * 2 + 1).repeat(32))
    np.testing.assert_array_equal(out[6], (by_warp.sum(1) ^ by_warp.max(1)).repeat(32))
    same = (by_warp[:, :, None] & 3) == (by_warp[:, None] & 3)
    masks = (same.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(2).astype(np.uint32)
    np.testing.assert_array_equal(out[7].view(np.uint32), masks.ravel())
    low = np.where(lane < 16, v[warp + (lane ^ 1)] + by_warp[:, :16].min(1).repeat(32), 0)
    np.testing.assert_array_equal(out[8], low)


def test_atomics_with_repeated_addresses():
    source = """
    extern "C" __global__ void count(int* sums, int* order, float* total, unsigned* wrapped, int* swapped) {
      __shared__ int local[4];
      int t = blockIdx.x * blockDim.x + threadIdx.x;
      if (threadIdx.x < 4) local[threadIdx.x] = 0;
      __syncthreads();
      atomicAdd(&local[threadIdx.x % 4], threadIdx.x);
      order[t] = atomicAdd(&sums[4], 1);
      atomicAdd(total, 0.5f);
      atomicInc(wrapped, 6);
      atomicMax(&sums[5], t * 7 % 101);
      int seen = *(volatile int*)swapped;
      while (true) { int found = atomicCAS(swapped, seen, seen + 3); if (found == seen) break; seen = found; }
      __syncthreads();
      if (threadIdx.x < 4) atomicAdd(&sums[threadIdx.x], local[threadIdx.x]);
    }
    """
    arrays = [
        np.zeros(6, np.int32),
        np.zeros(192, np.int32),
        np.zeros(1, np.float32),
        np.zeros(1, np.uint32),
        np.zeros(1, np.int32),
    ]
    sums, order, total, wrapped, swapped = run(source, arrays, grid=3, block=64)
    np.testing.assert_array_equal(sums[:4], [3 * sum(range(start, 64, 4)) for start in range(4)])
    np.testing.assert_array_equal(np.sort(order), np.arange(192))
    assert (sums[4], sums[5]) == (192, max(t * 7 % 101 for t in range(192)))
    assert total[0] == 96
    assert wrapped[0] == 192 % 7
    assert swapped[0] == 3 * 192


def test_a_flag_that_another_cta_sets():
    source = """
    extern "C" __global__ void chain(int* flags, int* out) {
      if (threadIdx.x == 0) {
        while (*(volatile int*)&flags[blockIdx.x + 1] == 0) {}
        __threadfence();
        out[blockIdx.x] = *(volatile int*)&out[blockIdx.x + 1] + 1;
        __threadfence();
        *(volatile int*)&flags[blockIdx.x] = 1;
      }
    }
    """
    flags = np.zeros(9, np.int32)
    flags[8] = 1
    _, out = run(source, [flags, np.zeros(9, np.int32)], grid=8, block=64)
    np.testing.assert_array_equal(out, np.arange(8, -1, -1))


def test_spilled_arrays_live_in_local_memory():
    source = """
    extern "C" __global__ void pick(float* out, const float* in, int which) {
      float values[8];
      for (int i = 0; i < 8; i++) values[i] = in[threadIdx.x * 8 + i];
      out[threadIdx.x] = values[(which + threadIdx.x) & 7];
    }
    """
    values = np.random.default_rng(3).standard_normal((40, 8), np.float32)
    out, _ = run(source, [np.zeros(40, np.float32), values], [int32(3)], block=40)
    np.testing.assert_array_equal(out, values[np.arange(40), (3 + np.arange(40)) & 7])


def test_module_variables_and_dynamic_shared_memory():
    source = """
    __device__ float table[4] = {1, -2, 3.5f, 1e10f};
    __constant__ short factors[3] = {7, -8, 9};
    extern __shared__ __align__(128) int dynamic[];
    extern "C" __global__ void variables(float* out) {
      dynamic[threadIdx.x] = factors[threadIdx.x % 3];
      __syncthreads();
      out[threadIdx.x] = table[threadIdx.x % 4] * dynamic[blockDim.x - 1 - threadIdx.x];
    }
    """
    [out] = run(source, [np.zeros(64, np.float32)], block=64, shared_bytes=256)
    t = np.arange(64)
    expected = np.float32([1, -2, 3.5, 1e10])[t % 4] * np.float32([7, -8, 9])[(63 - t) % 3]
    np.testing.assert_array_equal(out, expected)


def test_a_warp_barrier_waits_for_a_diverged_lane():
    source = """
    extern "C" __global__ void late(int* out, volatile int* flag) {
      __shared__ int message[2];
      int warp = threadIdx.x / 32;
      if (warp == 0 && threadIdx.x == 0) {
        while (*flag == 0) {}
        message[0] = 42;
      }
      __syncwarp();
      if (warp == 0) out[threadIdx.x] = message[0];
      if (warp == 1 && threadIdx.x == 32) { __threadfence(); *flag = 1; }
    }
    """
    out, _ = run(source, [np.zeros(32, np.int32), np.zeros(1, np.int32)], block=64)
    np.testing.assert_array_equal(out, 42)


def test_a_grid_larger_than_what_is_resident():
    n = 300_000
    x = np.arange(n, dtype=np.float32)
    result, _ = run(SAXPY, [x, x], [np.float32(1), int32(n)], grid=-(-n // 1024), block=1024)
    np.testing.assert_array_equal(result, 2 * x)


SPECIALS = """
extern "C" __global__ void specials(unsigned* out) {
  asm volatile("mov.u32 %0, %dynamic_smem_size;" : "=r"(out[0]));
  asm volatile("mov.u32 %0, %total_smem_size;" : "=r"(out[1]));
  asm volatile("mov.u32 %0, %aggr_smem_size;" : "=r"(out[2]));
  asm volatile("{.reg .pred p; mov.pred p, %is_explicit_cluster; selp.b32 %0, 1, 0, p;}" : "=r"(out[3]));
  unsigned long long grid;
  asm volatile("mov.u64 %0, %gridid;" : "=l"(grid));
  asm volatile("{.reg .b32 low; mov.u32 low, %gridid; sub.u32 %0, low, %1;}" : "=r"(out[4]) : "r"((unsigned)grid));
}
"""


def test_sizes_of_shared_memory_without_dynamic():
    source = SPECIALS.replace("{\n  asm", "{\n  __shared__ volatile char some[77];\n  some[threadIdx.x] = 0;\n  asm", 1)
    [out] = run(source, [np.zeros(5, np.uint32)], grid=1, block=1)
    assert out[:3].tolist() == [0, 128, 77 + 1024]


@pytest.mark.parametrize("cluster", [1, 2])
def test_special_registers_of_a_launch(cluster):
    [out] = run(SPECIALS, [np.zeros(5, np.uint32)], grid=2, block=1, cluster=(cluster, 1, 1), shared_bytes=260)
    assert out.tolist() == [260, 384, 260 + 1024, cluster - 1, 0]
