// A histogram too large for one block: each block of a cluster has a part, and all add to all parts
// (DSMEM atomics).
#include <cooperative_groups.h>

#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
constexpr int BLOCKS = 4, PART = 64;

extern "C" __global__ __cluster_dims__(BLOCKS) void cluster_histogram(int* out,
                                                                      const unsigned char* in,
                                                                      int count) {
  __shared__ int part[PART];
  auto cluster = cg::this_cluster();
  if (threadIdx.x < PART) part[threadIdx.x] = 0;
#ifdef NO_RELEASE
  ptx::barrier_cluster_arrive(ptx::sem_relaxed);
#else
  ptx::barrier_cluster_arrive(ptx::sem_release);
#endif
  unsigned char next =
      cluster.thread_rank() < count ? in[cluster.thread_rank()] : 0;  // while others arrive
  ptx::barrier_cluster_wait(ptx::sem_acquire);
  for (int i = cluster.thread_rank(); i < count; i += cluster.num_threads()) {
    atomicAdd(cluster.map_shared_rank(&part[next % PART], next / PART), 1);  // reported: NO_RELEASE
    if (i + cluster.num_threads() < count) next = in[i + cluster.num_threads()];
  }
  cluster.sync();
  if (threadIdx.x < PART) out[cluster.block_rank() * PART + threadIdx.x] = part[threadIdx.x];
}
