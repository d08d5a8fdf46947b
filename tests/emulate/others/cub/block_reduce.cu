// Three algorithms of BlockReduce one after another, in the same shared memory.
#include <cub/block/block_reduce.cuh>

template <cub::BlockReduceAlgorithm ALGORITHM>
using Reduce = cub::BlockReduce<int, 128, ALGORITHM>;

extern "C" __global__ void block_reduce(int* out, const int* in) {
  __shared__ union {
    Reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>::TempStorage warps;
    Reduce<cub::BLOCK_REDUCE_RAKING>::TempStorage raking;
    Reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>::TempStorage commutative;
  } shared;
  int value = in[blockIdx.x * 128 + threadIdx.x];
  int sum = Reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(shared.warps).Sum(value);
#ifndef NO_SYNC
  __syncthreads();
#endif
  // reported: NO_SYNC
  int most = Reduce<cub::BLOCK_REDUCE_RAKING>(shared.raking).Reduce(value, cuda::maximum<>{});
  __syncthreads();
  int part = Reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(shared.commutative).Sum(value, 77);
  if (threadIdx.x == 0) {
    out[3 * blockIdx.x] = sum;
    out[3 * blockIdx.x + 1] = most;
    out[3 * blockIdx.x + 2] = part;
  }
}
