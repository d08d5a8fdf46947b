// Values go round a ring of blocks: each step sends to the next block with st.async, which counts
// bytes there.
#include <cooperative_groups.h>

#include <cuda/barrier>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
constexpr int BLOCKS = 4, THREADS = 64;

extern "C" __global__ __cluster_dims__(BLOCKS) void st_async_ring(int4* out, const int4* in) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(16) int4 received[2][THREADS];
  __shared__ Barrier arrived[2];
  auto cluster = cg::this_cluster();
  unsigned next = (cluster.block_rank() + 1) % BLOCKS;
  if (threadIdx.x == 0) {
    init(&arrived[0], 1), init(&arrived[1], 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();

  int i = blockIdx.x * THREADS + threadIdx.x;
  int4 value = in[i], sum = value;
  for (int step = 0; step < BLOCKS - 1; step++) {
    int slot = step % 2, parity = step / 2 % 2;
    auto* mine = cuda::device::barrier_native_handle(arrived[slot]);
    if (threadIdx.x == 0)
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, mine,
                                     sizeof(received[0]));
    ptx::st_async(
        reinterpret_cast<int(*)>(cluster.map_shared_rank(&received[slot][threadIdx.x], next)),
        *reinterpret_cast<const int (*)[4]>(&value), cluster.map_shared_rank(mine, next));
#ifndef NO_WAIT
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, mine, parity)) {
    }
#endif
    value = received[slot][threadIdx.x];  // reported: NO_WAIT
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
    cluster.sync();
  }
  out[i] = sum;
}
