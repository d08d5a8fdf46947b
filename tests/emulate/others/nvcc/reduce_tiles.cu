// Split k without a workspace: blocks add their tiles to the result by TMA reductions.
#include "hopper.cuh"

struct Shared {
  __half a[64 * WIDTH], b[64 * WIDTH];
  float sums[64 * 32];
  uint64_t full;
};

extern "C" __global__ void __launch_bounds__(128)
    reduce_tiles(const __grid_constant__ CUtensorMap c_map,
                 const __grid_constant__ CUtensorMap a_map,
                 const __grid_constant__ CUtensorMap b_map) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.full, 1);
    expect(&shared.full, sizeof(shared.a) + sizeof(shared.b));
    load_box(shared.a, &a_map, blockIdx.z * WIDTH, blockIdx.y * 64, &shared.full);
    load_box(shared.b, &b_map, blockIdx.z * WIDTH, blockIdx.x * 64, &shared.full);
  }
  __syncthreads();
  wait(&shared.full, 0);
  float sums[32];
  multiply_step(sums, shared.a, shared.b, true);
  wgmma_wait(sums);
  for (int half = 0; half < 2; half++) {  // 32 columns at a time
    // reported: STAGED_TOO_EARLY
    each_pair(sums, [&](int y, int x, float left, float right) {
      if (x / 32 == half)
        shared.sums[y * 32 + x % 32] = left, shared.sums[y * 32 + x % 32 + 1] = right;
    });
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      const int at[2] = {static_cast<int>(blockIdx.x) * 64 + 32 * half,
                         static_cast<int>(blockIdx.y) * 64};
      ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &c_map,
                                       at, shared.sums);
      ptx::cp_async_bulk_commit_group();
#ifndef STAGED_TOO_EARLY
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
