// Products of different numbers of rows with one weight each: a block gets a group, and changes a
// tensor map for it.
#include "hopper.cuh"

struct Shared {
  __half a[2][64 * WIDTH], b[2][64 * WIDTH];
  alignas(128) CUtensorMap map;
  uint64_t full[2];
};

extern "C" __global__ void __launch_bounds__(128)
    gemm_grouped(float* c, const __half* a, const int* ends, CUtensorMap* maps,
                 const __grid_constant__ CUtensorMap a_map,
                 const __grid_constant__ CUtensorMap b_map, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  int group = blockIdx.x, begin = group ? ends[group - 1] : 0, rows = ends[group] - begin;
  CUtensorMap* map = maps + group;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.full[0], 1);
    ptx::mbarrier_init(&shared.full[1], 1);
    shared.map = a_map;
    ptx::tensormap_replace_global_address(ptx::space_shared, &shared.map, a + begin * k);
    ptx::tensormap_replace_global_dim(ptx::space_shared, &shared.map, ptx::n32_t<1>(), rows);
  }
  __syncthreads();
  if (threadIdx.x < 32)
    ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, map, &shared.map,
                                 ptx::n32_t<128>());
  __syncthreads();
  if (rows == 0) return;

  for (int row = 0, step_of_all = 0; row < rows; row += 64) {
    float sums[32];
    for (int step = 0; step < k / WIDTH; step++, step_of_all++) {
      int slot = step_of_all % 2;
      if (threadIdx.x == 0) {
#ifndef NO_ACQUIRE
        ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, map,
                                           ptx::n32_t<128>());
#endif
        expect(&shared.full[slot], sizeof(shared.a[0]) + sizeof(shared.b[0]));
        // reported: NO_ACQUIRE
        load_box(shared.a[slot], map, step * WIDTH, row, &shared.full[slot]);
        load_box(shared.b[slot], &b_map, step * WIDTH, 64 * group, &shared.full[slot]);
      }
      wait(&shared.full[slot], step_of_all / 2 % 2);
      multiply_step(sums, shared.a[slot], shared.b[slot], step == 0);
      wgmma_wait(sums);
      __syncthreads();
    }
    each_pair(sums, [&](int y, int x, float left, float right) {
      if (row + y < rows)
        *reinterpret_cast<float2*>(c + (begin + row + y) * 64 + x) = make_float2(left, right);
    });
  }
}
