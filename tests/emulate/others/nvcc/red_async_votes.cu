// The blocks of a cluster add to counters in block 0 with red.async; an mbarrier there counts their
// bytes.
#include <cooperative_groups.h>

#include <cuda/barrier>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" __global__ __cluster_dims__(4) void red_async_votes(unsigned* out,
                                                               const unsigned char* in) {
  __shared__ unsigned votes[16], own_votes[16];
  __shared__ cuda::barrier<cuda::thread_scope_block> counted;
  auto cluster = cg::this_cluster();
  auto* mine = cuda::device::barrier_native_handle(counted);
  if (threadIdx.x < 16) votes[threadIdx.x] = own_votes[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    init(&counted, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, mine,
                                   4 * 3 * blockDim.x);
  }
  cluster.sync();
  unsigned vote = in[blockIdx.x * blockDim.x + threadIdx.x];
#ifdef TO_ITSELF
  bool remote = true;
#else
  bool remote = cluster.block_rank() > 0;  // red.async is for memory of other blocks only
#endif
  if (remote)
    ptx::red_async(  // reported: TO_ITSELF
        ptx::op_add, cluster.map_shared_rank(&votes[vote], 0), 1u,
        cluster.map_shared_rank(mine, 0));
  else
    atomicAdd(&own_votes[vote], 1u);
  __syncthreads();
  if (cluster.block_rank() == 0) {
#ifdef WRONG_PARITY
    const unsigned parity = 1;
#else
    const unsigned parity = 0;
#endif
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, mine, parity)) {
    }
    if (threadIdx.x < 16)
      out[blockIdx.x / 4 * 16 + threadIdx.x] =
          votes[threadIdx.x] + own_votes[threadIdx.x];  // reported: WRONG_PARITY
  }
  cluster.sync();
}
