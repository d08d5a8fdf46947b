"""A product through a ring of stages that TMA fills, with multicast, mbarriers and wgmma, and planted faults."""

from support.sources import PTX_WRAPPERS

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
