"""Asynchronous kernels: TMA, mbarrier, wgmma, clusters and cp.async, right and with planted faults."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import AsyncHazard, BarrierProtocol, Deadlock, Device, EmulatorError, OutOfBounds

POLICIES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(4))]

PTX_WRAPPERS = """
typedef unsigned long long u64;
typedef unsigned short bf16;
struct alignas(64) TensorMap { u64 opaque[16]; };
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void mbarrier_init(unsigned b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;"
               :: "r"(b), "r"(n) : "memory");
}
__device__ void mbarrier_expect(unsigned b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
}
__device__ void mbarrier_arrive(unsigned b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory");
}
__device__ void mbarrier_arrive_at_rank(unsigned b, int rank) {
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1;"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];}" :: "r"(b), "r"(rank) : "memory");
}
__device__ void mbarrier_wait(unsigned b, unsigned parity) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }"
               :: "r"(b), "r"(parity) : "memory");
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""

WGMMA_REGISTERS = ", ".join(f"%{i}" for i in range(32))
WGMMA_OUTPUTS = ", ".join(f'"+f"(d[{i}])' for i in range(32))

# C (m, n) = A (m, k) B (n, k)^T; a cluster is two CTAs along m, which share each B tile by multicast of its halves.
RING_GEMM = (
    PTX_WRAPPERS
    + """
constexpr int stages = 2, a_bytes = 64 * 128, b_bytes = 64 * 128;
__device__ void load(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
}
__device__ void multicast(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%3, %4}], [%2], %5;"
               :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "h"((short)3) : "memory");
}
__device__ u64 descriptor(unsigned address) { return (address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

extern "C" __global__ void ring(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
                                int n, int k) {
  extern __shared__ __align__(1024) unsigned char storage[];
  unsigned base = shared_address(storage), full = base + stages * (a_bytes + b_bytes), empty = full + 8 * stages;
  int rank = blockIdx.x % 2, m0 = blockIdx.x * 64, n0 = blockIdx.y * 64;
  if (threadIdx.x == 0 && FAULT != 5)
    for (int s = 0; s < stages; s++) { mbarrier_init(full + 8 * s, 1); mbarrier_init(empty + 8 * s, 2); }
  cluster_sync();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int i = 0; i < k / 64; i++) {
        int s = i % stages;
        mbarrier_wait(empty + 8 * s, (i / stages & 1) ^ 1);
        if (FAULT == 3) mbarrier_arrive(full + 8 * s);
        else mbarrier_expect(full + 8 * s, a_bytes + b_bytes + (FAULT == 8 ? 16 : 0));
        unsigned slot = base + s * (a_bytes + b_bytes);
        load(slot, &a, full + 8 * s, i * 64, m0);
        multicast(slot + a_bytes + rank * b_bytes / 2, &b, full + 8 * s, i * 64, n0 + 32 * rank);
      }
    }
  } else {
    float d[32] = {};
    for (int i = 0; i < k / 64; i++) {
      int s = i % stages;
      if (FAULT != 1) mbarrier_wait(full + 8 * s, i / stages & 1);
      unsigned slot = base + s * (a_bytes + b_bytes);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int j = 0; j < 4; j++)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"""
    + WGMMA_REGISTERS
    + """}, %32, %33, 1, 1, 1, 0, 0;" : """
    + WGMMA_OUTPUTS
    + """ : "l"(descriptor(slot + 32 * j)), "l"(descriptor(slot + a_bytes + 32 * j)));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (FAULT == 2 && threadIdx.x < 2) mbarrier_arrive_at_rank(empty + 8 * s, threadIdx.x);
      asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(FAULT == 9 ? 1 : 0) : "memory");
      if (FAULT == 6 && i == 1) continue;
      if (FAULT != 2 && threadIdx.x < (FAULT == 4 ? 3 : 2)) mbarrier_arrive_at_rank(empty + 8 * s, threadIdx.x % 2);
    }
    for (int i = 0; i < 32; i++) {
      int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
      int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      c[(m0 + row) * n + n0 + column] = d[i];
    }
  }
  if (FAULT != 7) cluster_sync();
}
"""
)


def bf16_bits(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def ring_gemm(fault, policy=("eager", 0), m=128, n=128, k=320):
    """The error of the product, computed in a device of its own."""
    generator = np.random.default_rng(7)
    a, b = generator.integers(-4, 5, (m, k)), generator.integers(-4, 5, (n, k))
    device = Device(memory_bytes=1 << 24, asynchrony=policy[0], seed=policy[1])
    maps = [
        device.tensor_map(
            address=device.upload(bf16_bits(matrix)), dtype="bf16", shape=(k, len(matrix)),
            strides=(2 * k,), box=(64, box_rows), swizzle=128,
        )
        for matrix, box_rows in ((a, 64), (b, 32))
    ]  # fmt: skip
    c = device.allocate(4 * m * n)
    kernel = device.load(compile_ptx(RING_GEMM, "sm_90a", f"-DFAULT={fault}"))
    device.launch(kernel, (m // 64, n // 64), (160,), [*maps, c, n, k], cluster=(2, 1, 1), smem=2 * 2 * 8192 + 32)
    result = device.read(c, 4 * m * n).view(np.float32).reshape(m, n)
    return float(np.abs(result - a @ b.T).max())


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
def test_ring_gemm(policy):
    assert ring_gemm(0, policy) == 0


@pytest.mark.planted_fault
def test_consumer_that_does_not_wait_for_the_data():
    with pytest.raises(AsyncHazard, match=r"wgmma\.mma_async.*test\.cu:\d+"):
        ring_gemm(1, ("lazy", 0))


@pytest.mark.planted_fault
def test_slot_released_before_wgmma_has_read_it():
    with pytest.raises(AsyncHazard, match=r"wgmma\.wait_group"):
        ring_gemm(2, ("lazy", 0))


@pytest.mark.planted_fault
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
def test_arrival_that_expects_no_bytes(policy):
    try:
        error = ring_gemm(3, policy)
    except EmulatorError:
        return
    assert error != 0


def test_over_arrival():
    with pytest.raises(BarrierProtocol, match=r"arrives too often.*takes 2 arrivals"):
        ring_gemm(4)


def test_mbarrier_without_initialisation():
    with pytest.raises(BarrierProtocol, match="not initialised"):
        ring_gemm(5)


def test_slot_that_is_never_released():
    with pytest.raises(Deadlock) as caught:
        ring_gemm(6)
    assert "pending arrivals 2 of 2" in str(caught.value)
    assert "mbarrier.try_wait" in str(caught.value)
    assert "test.cu:" in str(caught.value)


@pytest.mark.planted_fault
def test_cta_that_exits_while_its_peer_multicasts_into_it():
    def until_it_matters():
        for seed in range(8):
            ring_gemm(7, ("random", seed))

    with pytest.raises(BarrierProtocol, match="has exited"):
        until_it_matters()


def test_expecting_too_many_bytes():
    with pytest.raises(Deadlock, match="missing bytes 16"):
        ring_gemm(8)


@pytest.mark.planted_fault
def test_accumulators_read_before_the_last_wait():
    with pytest.raises(AsyncHazard):
        ring_gemm(9, ("lazy", 0))


def test_tensor_map_larger_than_its_allocation():
    with pytest.raises(OutOfBounds, match="not in one allocation"):
        ring_gemm_past_the_end()


def ring_gemm_past_the_end():
    """A launch with more CTAs along m than A has rows, though its tensor map claims to have them."""
    device = Device(memory_bytes=1 << 24)
    matrix = device.upload(np.zeros((128, 64), np.uint16))
    maps = [
        device.tensor_map(address=matrix, dtype="bf16", shape=(64, 4096), strides=(128,), box=(64, rows), swizzle=128)
        for rows in (64, 32)
    ]
    kernel = device.load(compile_ptx(RING_GEMM, "sm_90a", "-DFAULT=0"))
    c = device.allocate(4 * 256 * 64)
    device.launch(kernel, (4, 1), (160,), [*maps, c, 64, 64], cluster=(2, 1, 1), smem=2 * 2 * 8192 + 32)


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
    assert counters.tma_stored_bytes == 72 * 52 * 4
    result = device.read(out, 72 * 52 * 4).view(np.float32).reshape(72, 52)
    assert (result[:, 50:] == 0).all()  # stores end rows with whole pieces of 16 bytes, here of zeros out of bounds
    return bool((result[:, :50] == matrix.T).all())


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
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


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
def test_exit_without_waiting_for_a_store(policy):
    with pytest.raises(AsyncHazard, match=r"exit without waiting.*bulk stores"):
        transpose(2, policy)


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


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
def test_cp_async_pipeline(policy):
    assert cp_async(1, policy)


@pytest.mark.planted_fault
def test_cp_async_with_a_group_too_many_in_flight():
    assert cp_async(2, ("eager", 0))
    assert not cp_async(2, ("lazy", 0))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
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


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
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


REGISTER_WGMMA = """
extern "C" __global__ void product(float* d_out, const unsigned* a, const unsigned short* b) {
  __shared__ __align__(128) unsigned short tile[8 * 16];
  int t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4;
  tile[t / 64 * 64 + t % 64] = b[t % 64 / 8 * 16 + t / 64 * 8 + t % 8];
  if (FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  unsigned base = (unsigned)__cvta_generic_to_shared(tile), r[4];
  for (int i = 0; i < 4; i++) r[i] = a[(row + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
  float d[4] = {1, 2, 3, 4};
  unsigned long long descriptor = base >> 4 | 8ull << 16 | 8ull << 32;
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]));  // they are not to be set behind the fence
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{.reg .pred p; setp.ne.b32 p, %9, 0;"
               " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, -1, 0;}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor), "r"(blockIdx.x));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) d_out[blockIdx.x * 512 + (row + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""


def register_wgmma(fence, policy):
    """D - A B^T for A in registers and B stored by threads; CTA 0 drops the initial D, CTA 1 keeps it."""
    generator = np.random.default_rng(9)
    a, b = generator.integers(-4, 5, (64, 16)), generator.integers(-4, 5, (8, 16))
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    d = device.allocate(2 * 512 * 4)
    kernel = device.load(compile_ptx(REGISTER_WGMMA, "sm_90a", f"-DFENCE={fence}"))
    device.launch(kernel, (2,), (128,), [d, device.upload(bf16_bits(a)), device.upload(bf16_bits(b))])
    initial = np.tile([[1, 2], [3, 4]], (1, 4)).repeat(8, axis=0)
    expected = np.stack([-a @ b.T, np.tile(initial, (4, 1)) - a @ b.T])
    np.testing.assert_array_equal(device.read(d, 4096).view(np.float32).reshape(2, 64, 8), expected)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
def test_wgmma_with_a_in_registers(policy):
    register_wgmma(1, policy)


@pytest.mark.planted_fault
def test_wgmma_of_data_that_no_proxy_fence_follows(reports):
    register_wgmma(0, ("eager", 0))
    assert [report.kind for report in reports()] == ["proxy-fence"]
