// C = A B^T: a persistent grid with one thread that loads by TMA, two warpgroups that multiply, and
// stores by TMA.
#include "hopper.cuh"

constexpr int ROWS = 128, COLUMNS = 64, STAGES = 3;

struct Shared {
  __half a[STAGES][ROWS * WIDTH], b[STAGES][COLUMNS * WIDTH], c[2][64 * COLUMNS];
  uint64_t full[STAGES], empty[STAGES];
};

extern "C" __global__ void __launch_bounds__(288)
    gemm_wgmma(const __grid_constant__ CUtensorMap c_map, const __grid_constant__ CUtensorMap a_map,
               const __grid_constant__ CUtensorMap b_map, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  int group = threadIdx.x / 128, tiles = m / ROWS * (n / COLUMNS), steps = k / WIDTH;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; slot++) {
      ptx::mbarrier_init(&shared.full[slot], 1);
#ifdef ONE_CONSUMER
      ptx::mbarrier_init(&shared.empty[slot], 1);
#else
      ptx::mbarrier_init(&shared.empty[slot], 2);
#endif
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();

  Place place;
  if (group == 2) {
    if (threadIdx.x > 256) return;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      int row = tile / (n / COLUMNS) * ROWS, column = tile % (n / COLUMNS) * COLUMNS;
      for (int step = 0; step < steps; step++, place.advance<STAGES>()) {
        uint64_t* full = &shared.full[place.slot];
#ifdef WRONG_PHASE
        wait(&shared.empty[place.slot], place.parity);  // reported: WRONG_PHASE
#else
        wait(&shared.empty[place.slot], place.parity ^ 1);
#endif
        expect(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
        load_box(shared.a[place.slot], &a_map, step * WIDTH, row, full);
        load_box(shared.b[place.slot], &b_map, step * WIDTH, column, full);
      }
    }
    return;
  }

  bool elected = threadIdx.x % 128 == 0;
  auto meet = [&] { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); };
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int row = tile / (n / COLUMNS) * ROWS + 64 * group, column = tile % (n / COLUMNS) * COLUMNS;
    float sums[32];
    for (int step = 0; step < steps; step++, place.advance<STAGES>()) {
#ifndef NO_FULL_WAIT
      wait(&shared.full[place.slot], place.parity);
#endif
      const __half* a = shared.a[place.slot] + 64 * group * WIDTH;
      // reported: NO_FULL_WAIT, NO_WGMMA_FENCE
      multiply_step(sums, a, shared.b[place.slot], step == 0);
#ifndef NO_WGMMA_WAIT
      wgmma_wait(sums);
#endif
      if (elected) ptx::mbarrier_arrive(&shared.empty[place.slot]);  // reported: ONE_CONSUMER
    }
    __half* staged = shared.c[group];
    if (elected) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    meet();
    each_pair(sums, [&](int y, int x, float left, float right) {  // reported: NO_WGMMA_WAIT
      __half2 both = __floats2half2_rn(left, right);
      *reinterpret_cast<__half2*>(staged + y * COLUMNS + ((x / 8) ^ (y & 7)) * 8 + x % 8) = both;
    });
#ifndef NO_PROXY_FENCE
    ptx::fence_proxy_async(ptx::space_shared);
#endif
    meet();
    if (elected) {
      const int at[2] = {column, row};
      // reported: NO_PROXY_FENCE
      ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &c_map, at, staged);
      ptx::cp_async_bulk_commit_group();
    }
  }
#ifndef NO_STORE_WAIT
  if (elected) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
#endif
}  // reported: NO_STORE_WAIT
