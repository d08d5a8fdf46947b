// Each block of a cluster sends a part of its row to each other block by bulk copies between their
// shared memories.
#include <cooperative_groups.h>

#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
constexpr int BLOCKS = 4, PART = 32;

extern "C" __global__ __cluster_dims__(BLOCKS) void bulk_exchange(int* out, const int* in) {
  __shared__ alignas(16) int mine[BLOCKS][PART], received[BLOCKS][PART];
  __shared__ uint64_t arrived;
  auto cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank(), part = threadIdx.x / PART, i = threadIdx.x % PART;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived,
                                   sizeof(received));
  }
  mine[part][i] = in[(rank * BLOCKS + part) * PART + i];
#ifndef NO_PROXY_FENCE
  ptx::fence_proxy_async(ptx::space_shared);
#endif
  cluster.sync();
  if (threadIdx.x < BLOCKS)
    // reported: NO_PROXY_FENCE, EXITS
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared,
                       cluster.map_shared_rank(received[rank], threadIdx.x), mine[threadIdx.x],
                       sizeof(mine[0]), cluster.map_shared_rank(&arrived, threadIdx.x));
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
  }
  out[(rank * BLOCKS + part) * PART + i] = received[part][i];
#ifndef EXITS
  cluster.sync();
#endif
}
