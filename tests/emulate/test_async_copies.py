"""Asynchronous copies in pipelines: TMA, cp.async and bulk copies through a peer, and with planted faults."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from support.policies import each_policy
from support.sources import PTX_WRAPPERS
from tilewright.emulator import AsyncHazard, Device

TILE_STORE = (
    PTX_WRAPPERS
    + """
extern "C" __global__ void transpose(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
  __shared__ __align__(1024) float tile[32 * 32], turned[32 * 32];
  __shared__ u64 barrier;
  unsigned b = shared_address(&barrier);
  if (threadIdx.x == 0) mbarrier_init(b, 1);
  __syncthreads();
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x == 0) {
      mbarrier_expect(b, sizeof(tile));
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                   " [%0], [%1, {%3, %4}], [%2];"
                   :: "r"(shared_address(tile)), "l"(&in), "r"(b), "r"(32 * i), "r"(int(blockIdx.x) * 32) : "memory");
    }
    mbarrier_wait(b, i & 1);
    if (threadIdx.x == 0 && FAULT != 1) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncthreads();
    for (int j = threadIdx.x; j < 1024; j += blockDim.x) {
      int y = j / 32, x = j % 32;
      turned[x * 32 + y] = tile[y * 32 + (x / 4 ^ y % 8) * 4 + x % 4];
    }
    if (FAULT != 3) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                   " cp.async.bulk.commit_group;"
                   :: "l"(&out), "r"(shared_address(turned)), "r"(int(blockIdx.x) * 32), "r"(32 * i) : "memory");
    }
  }
  if (threadIdx.x == 0 && FAULT != 2) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""
)


def transpose(fault, policy):
    """Whether a (50, 72) matrix is transposed through shared memory by TMA, edges included."""
    matrix = np.random.default_rng(1).standard_normal((50, 72), np.float32)
    device = Device(memory_bytes=1 << 22, asynchrony=policy[0], seed=policy[1])
    out = device.allocate(72 * 52 * 4)
    maps = [
        device.tensor_map(
            address=address, dtype=np.float32, shape=shape, strides=(stride,), box=(32, 32), swizzle=swizzle
        )
        for address, shape, stride, swizzle in (
            (device.upload(matrix), (72, 50), 288, 128),
            (out, (50, 72), 208, 0),
        )
    ]
    kernel = device.load(compile_ptx(TILE_STORE, "sm_90a", f"-DFAULT={fault}"))
    counters = device.launch(kernel, (2,), (64,), maps)
    assert counters.tma_loaded_bytes == 2 * 3 * 32 * 32 * 4
    assert counters.tma_stored_bytes == 36 * (4 + 3 + 5 + 3) * 32  # 128 and 80 bytes a row, every second 16 bytes off
    result = device.read(out, 72 * 52 * 4).view(np.float32).reshape(72, 52)
    assert (result[:, 50:] == 0).all()  # stores end rows with whole pieces of 16 bytes, here of zeros out of bounds
    return bool((result[:, :50] == matrix.T).all())


@each_policy
def test_tma_load_and_store(policy):
    assert transpose(0, policy)


@pytest.mark.planted_fault
def test_staging_buffer_reused_before_the_store_has_read_it():
    with pytest.raises(AsyncHazard, match="bulk"):
        transpose(1, ("lazy", 0))


@pytest.mark.planted_fault
def test_store_of_data_that_no_proxy_fence_follows(reports):
    transpose(3, ("eager", 0))
    assert {report.kind for report in reports()} == {"proxy-fence"}


@pytest.mark.planted_fault
@each_policy
def test_exit_without_waiting_for_a_store(policy, reports):
    assert transpose(2, policy)
    (report,) = reports()
    assert report.kind == "exit-before-wait"
    assert "`ret`" in report.locations[0]
    assert "thread 0" in report.threads


CP_ASYNC = """
extern "C" __global__ void pipeline(float* out, const float* in, int n) {
  __shared__ __align__(16) float ring[2][256];
  int t = threadIdx.x;
  auto fetch = [&](int block, int stage) {
    int first = block * 256 + t * 4, left = n - first;
    unsigned bytes = left >= 4 ? 16 : left > 0 ? left * 4 : 0;
    unsigned to = (unsigned)__cvta_generic_to_shared(&ring[stage][t * 4]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(in + (bytes ? first : 0)), "r"(bytes));
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, 0);
  for (int i = 0; i < 4; i++) {
    if (i < 3) fetch(i + 1, (i + 1) % 2); else asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING));
    __syncthreads();
    for (int j = 0; j < 4; j++) out[i * 256 + t * 4 + j] = ring[i % 2][255 - t * 4 - j];
    __syncthreads();
  }
}
"""


def cp_async(pending, policy):
    """Whether blocks of 256 come back reversed, with zeros past the end of the input."""
    n = 900
    values = np.random.default_rng(2).standard_normal(n, np.float32)
    device = Device(memory_bytes=1 << 22, asynchrony=policy[0], seed=policy[1])
    out = device.allocate(4096)
    kernel = device.load(compile_ptx(CP_ASYNC, "sm_80", f"-DPENDING={pending}"))
    device.launch(kernel, (1,), (64,), [out, device.upload(values), n])
    expected = np.pad(values, (0, 1024 - n)).reshape(4, 256)[:, ::-1].ravel()
    return bool((device.read(out, 4096).view(np.float32) == expected).all())


@each_policy
def test_cp_async_pipeline(policy):
    assert cp_async(1, policy)


@pytest.mark.planted_fault
def test_cp_async_with_a_group_too_many_in_flight():
    assert cp_async(2, ("eager", 0))
    assert not cp_async(2, ("lazy", 0))


@each_policy
def test_cp_async_that_arrives_at_an_mbarrier(policy):
    source = (
        PTX_WRAPPERS
        + """
    extern "C" __global__ void arrive(int* out, const int* in) {
      __shared__ int data[64];
      __shared__ u64 barrier;
      int t = threadIdx.x;
      unsigned b = shared_address(&barrier);
      if (t == 0) mbarrier_init(b, 64);
      __syncthreads();
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(&data[t])), "l"(in + t));
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(b));
      mbarrier_wait(b, 0);
      out[t] = data[63 - t];
    }
    """
    )
    values = np.arange(64, dtype=np.int32) * 3
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out = device.allocate(256)
    device.launch(device.load(compile_ptx(source)), (1,), (64,), [out, device.upload(values)])
    np.testing.assert_array_equal(device.read(out, 256).view(np.int32), values[::-1])


@each_policy
def test_bulk_copy_through_a_peer(policy):
    """Global to own shared memory, on to the shared memory of the other CTA of the cluster, and back to global."""
    source = (
        PTX_WRAPPERS
        + """
    extern "C" __global__ void around(int* out, const int* in) {
      __shared__ __align__(128) int mine[64], theirs[64];
      __shared__ u64 barriers[2];
      unsigned b = shared_address(barriers), rank;
      asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
      if (threadIdx.x == 0) {
        mbarrier_init(b, 1); mbarrier_init(b + 8, 1);
        mbarrier_expect(b, 256); mbarrier_expect(b + 8, 256);
      }
      cluster_sync();
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(shared_address(mine)), "l"(in + 64 * blockIdx.x), "r"(256), "r"(b) : "memory");
        mbarrier_wait(b, 0);
        asm volatile("{.reg .b32 to, signal;"
                     " mapa.shared::cluster.u32 to, %0, %3; mapa.shared::cluster.u32 signal, %2, %3;"
                     " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                     " [to], [%1], 256, [signal];}"
                     :: "r"(shared_address(theirs)), "r"(shared_address(mine)), "r"(b + 8), "r"(rank ^ 1) : "memory");
        mbarrier_wait(b + 8, 0);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256; cp.async.bulk.commit_group;"
                     " cp.async.bulk.wait_group 0;"
                     :: "l"(out + 64 * blockIdx.x), "r"(shared_address(theirs)) : "memory");
      }
      cluster_sync();
    }
    """
    )
    values = np.arange(256, dtype=np.int32)
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out = device.allocate(1024)
    device.launch(device.load(compile_ptx(source)), (4,), (32,), [out, device.upload(values)], cluster=(2,))
    expected = values.reshape(2, 2, 64)[:, ::-1].ravel()
    np.testing.assert_array_equal(device.read(out, 1024).view(np.int32), expected)


WHOLE_WARPS = (
    PTX_WRAPPERS
    + """
extern "C" __global__ void every_lane(const __grid_constant__ TensorMap map, int* sums, int* copies) {
  __shared__ __align__(128) int tile[32];
  tile[threadIdx.x % 32] = 1 + threadIdx.x % 32;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, 0}], [%2];"
               " cp.async.bulk.global.shared::cta.bulk_group [%3], [%2], 128;"
               " cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%4], [%2], 128;"
               " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
               :: "l"(&map), "r"(threadIdx.x / 16 * 8), "r"(shared_address(tile)), "l"(copies + threadIdx.x / 32 * 32),
                  "l"(sums) : "memory");
}
"""
)


@each_policy
def test_lanes_that_ask_for_one_store_store_once_and_each_reduces(policy):
    """Half a warp stores a box of 8 columns, a warp stores a range, and every lane reduces."""
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out, sums, copies = (device.upload(np.zeros(128, np.int32)) for _ in range(3))
    tensor_map = device.tensor_map(address=out, dtype=np.int32, shape=(32, 4), strides=(128,), box=(8, 4))
    kernel = device.load(compile_ptx(WHOLE_WARPS))
    counters = device.launch(kernel, (1,), (64,), [tensor_map, sums, copies])
    row = np.arange(1, 33)
    np.testing.assert_array_equal(
        device.read(out, 512).view(np.int32).reshape(4, 4, 8), row.reshape(4, 1, 8).repeat(4, 1)
    )
    np.testing.assert_array_equal(device.read(copies, 256).view(np.int32), np.tile(row, 2))
    np.testing.assert_array_equal(device.read(sums, 128).view(np.int32), 64 * row)
    assert counters.tma_stored_bytes == 4 * 128 + 2 * 128 + 64 * 128
