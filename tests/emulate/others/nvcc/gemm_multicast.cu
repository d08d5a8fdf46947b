// Two blocks of a cluster multiply different rows by the same columns: each loads half of B and
// multicasts it.
#include <cooperative_groups.h>

#include "hopper.cuh"

namespace cg = cooperative_groups;
constexpr int STAGES = 2;

struct Shared {
  __half a[STAGES][64 * WIDTH], b[STAGES][64 * WIDTH];
  uint64_t full[STAGES], empty[STAGES];
};

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(256)
    gemm_multicast(float* c, const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  auto cluster = cg::this_cluster();
  int rank = cluster.block_rank(), row = blockIdx.x * 64, column = blockIdx.y * 64;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; slot++) {
      ptx::mbarrier_init(&shared.full[slot], 1);
#ifdef OWN_CONSUMER_ONLY
      ptx::mbarrier_init(&shared.empty[slot], 1);
#else
      ptx::mbarrier_init(&shared.empty[slot], 2);  // the consumers of both blocks
#endif
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();

  Place place;
  if (threadIdx.x >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 128) {
      for (int step = 0; step < k / WIDTH; step++, place.advance<STAGES>()) {
        uint64_t* full = &shared.full[place.slot];
        wait_of_cluster(&shared.empty[place.slot], place.parity ^ 1);
        expect(full, sizeof(shared.a[0]) + sizeof(shared.b[0]));
        load_box(shared.a[place.slot], &a_map, step * WIDTH, row, full);
        const int at[2] = {step * WIDTH, column + 32 * rank};
        // reported: OWN_CONSUMER_ONLY
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global,
                                  shared.b[place.slot] + 32 * rank * WIDTH, &b_map, at, full, 3);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sums[32];
    for (int step = 0; step < k / WIDTH; step++, place.advance<STAGES>()) {
      wait(&shared.full[place.slot], place.parity);
      multiply_step(sums, shared.a[place.slot], shared.b[place.slot], step == 0);
      wgmma_wait(sums);
#ifdef OWN_CONSUMER_ONLY
      if (threadIdx.x == 0) ptx::mbarrier_arrive(&shared.empty[place.slot]);
#else
      if (threadIdx.x < 2)
        ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster,
                             cluster.map_shared_rank(&shared.empty[place.slot], threadIdx.x));
#endif
    }
    each_pair(sums, [&](int y, int x, float left, float right) {
      *reinterpret_cast<float2*>(c + (row + y) * n + column + x) = make_float2(left, right);
    });
  }
#ifndef EXITS
  cluster.sync();
#endif
}  // reported: EXITS
