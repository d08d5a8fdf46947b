// Each row has a cluster; its blocks read each other's sums through distributed shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ __cluster_dims__(4) void reduce_cluster(int* out, const int* in,
                                                              int columns) {
  __shared__ int of_warps[4], of_block;
  auto cluster = cg::this_cluster();
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int row = blockIdx.x / 4, value = 0;
  for (int i = cluster.thread_rank(); i < columns; i += cluster.num_threads())
    value += in[row * columns + i];
  value = cg::reduce(warp, value, cg::plus<int>());
  if (warp.thread_rank() == 0) of_warps[warp.meta_group_rank()] = value;
  __syncthreads();
  if (threadIdx.x == 0) of_block = of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3];
#ifdef NO_SYNC
  __syncthreads();
#else
  cluster.sync();
#endif
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    int total = 0;
    for (int rank = 0; rank < 4; rank++)
      total += *cluster.map_shared_rank(&of_block, rank);  // reported: NO_SYNC, EXITS
    out[row] = total;
  }
#ifndef EXITS
  cluster.sync();
#endif
}
