// A stream of rows through shared memory: bulk copies in, a product with weights in place, bulk
// copies out.
#include <cuda/ptx>

namespace ptx = cuda::ptx;
constexpr int SLOTS = 3, WORDS = 256;

extern "C" __global__ void bulk_copy_ring(float* out, const float* in, const float* weights,
                                          int rows) {
  __shared__ alignas(128) float ring[SLOTS][WORDS];
  __shared__ uint64_t full[SLOTS];
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < SLOTS; slot++) ptx::mbarrier_init(&full[slot], 1);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  auto fetch = [&](int row) {
    int slot = row / gridDim.x % SLOTS;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[slot],
                                   sizeof(ring[0]));
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, ring[slot], in + row * WORDS,
                       sizeof(ring[0]), &full[slot]);
  };
  int row = blockIdx.x, step = gridDim.x;
  if (threadIdx.x == 0)
    for (int ahead = 0; ahead < SLOTS - 1; ahead++)
      if (row + ahead * step < rows) fetch(row + ahead * step);
  for (int turn = 0; row < rows; row += step, turn++) {
    int slot = turn % SLOTS;
    while (!ptx::mbarrier_try_wait_parity(&full[slot], turn / SLOTS % 2)) {
    }
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) ring[slot][i] *= weights[i];
#ifndef NO_PROXY_FENCE
    ptx::fence_proxy_async(ptx::space_shared);
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
      // reported: NO_PROXY_FENCE
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + row * WORDS, ring[slot],
                         sizeof(ring[0]));
      ptx::cp_async_bulk_commit_group();
#ifndef NO_READ_WAIT
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>());  // what is filled next has been read
#endif
      int next = row + (SLOTS - 1) * step;
      if (next < rows) fetch(next);  // reported: NO_READ_WAIT
    }
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
