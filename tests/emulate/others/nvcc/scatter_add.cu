// The gradient of an embedding: rows are added to a table by bulk reductions, which are atomic for
// each element.
#include <cuda/ptx>

namespace ptx = cuda::ptx;
constexpr int WORDS = 64;

extern "C" __global__ void scatter_add(int* table, const int* rows, const int* indices, int count) {
  __shared__ alignas(16) int staged[WORDS];
  for (int row = blockIdx.x; row < count; row += gridDim.x) {
    staged[threadIdx.x] = 3 * rows[row * WORDS + threadIdx.x];  // reported: NO_READ_WAIT
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add,
                                table + indices[row] * WORDS, staged, sizeof(staged));
      ptx::cp_async_bulk_commit_group();
#ifndef NO_READ_WAIT
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
#endif
    }
    __syncthreads();
  }
#ifdef NO_READ_WAIT
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
#endif
}
