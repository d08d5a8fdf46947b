// cuda::memcpy_async with a cuda::barrier: a block filters rows with a halo of one element on each
// side.
#include <cooperative_groups.h>

#include <cuda/barrier>

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void memcpy_async_barrier(int* out, const int* in, int rows) {
  constexpr int COLUMNS = 128;
  __shared__ alignas(16) int row[COLUMNS];
  __shared__ Barrier copied;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&copied, block.size());
  block.sync();
  for (int i = blockIdx.x; i < rows; i += gridDim.x) {
    cuda::memcpy_async(block, row, in + i * COLUMNS, cuda::aligned_size_t<16>(sizeof(row)), copied);
    copied.arrive_and_wait();
    int t = block.thread_rank();
    int left = t > 0 ? row[t - 1] : 0;  // reported: NO_SYNC
    int right = t < COLUMNS - 1 ? row[t + 1] : 0;
    out[i * COLUMNS + t] = left + 2 * row[t] + right;
#ifndef NO_SYNC
    block.sync();
#endif
  }
}
