// Rung: only arrivals at barriers that carry information.
//
// The bytes themselves tell that a slot is full: they count toward the transaction of `full`. Its
// one arrival is the producer's, which announces the bytes; consumers only wait. One thread of each
// consumer warpgroup tells that a slot is empty, because its wgmmas are the whole warpgroup's
// (docs/memory-rules.md, "One arrival per consumer warpgroup"). The phase before a new barrier's
// first counts as complete, so no arrival need say that the ring is empty at first.
//
//   arrivals in a k-block     full   empty
//   all threads                257     257
//   lean                         1       2
#pragma once
#include "ladder/wgmma_persistent.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void fill_lean_ring(Ring<Config>& ring,
                                               RingPosition<Config::stages>& position,
                                               const TensorMap& map_a, const TensorMap& map_b,
                                               int row, int column, int k_extent) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    const uint32_t full = shared_address(&ring.full[position.slot]);
    Slot<Config>& slot = ring.slots[position.slot];
    mbarrier_wait(shared_address(&ring.empty[position.slot]), position.parity ^ 1);
    mbarrier_arrive_expect_tx(full, sizeof(slot));
    tma_load(shared_address(slot.a), map_a, k, row, 0, full);
    tma_load(shared_address(slot.b), map_b, k, column, 0, full);
    position.advance();
  }
}

template <class Config>
__device__ __forceinline__ void drain_lean_ring(Ring<Config>& ring,
                                                RingPosition<Config::stages>& position,
                                                WgmmaAccumulators<Config>& accumulators,
                                                int row_block, int k_extent) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    mbarrier_wait(shared_address(&ring.full[position.slot]), position.parity);
    wgmma_fence();
    multiply<Config>(accumulators, ring.slots[position.slot], row_block);
    wgmma_commit();
    wgmma_wait<0>();
    if (threadIdx.x % 128 == 0) mbarrier_arrive(shared_address(&ring.empty[position.slot]));
    position.advance();
  }
  wgmma_results(accumulators);
}

template <class Config>
__device__ __forceinline__ void wgmma_lean_barriers_kernel(const TensorMap& map_a,
                                                           const TensorMap& map_b,
                                                           const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  Ring<Config>& ring = *reinterpret_cast<Ring<Config>*>(smem);
  static_assert(sizeof(ring) == Config::smem_bytes, "hopper.py and wgmma_pipelined.cuh agree");

  if (threadIdx.x == 0) init_ring(ring, 1, Config::consumers);
  __syncthreads();

  RingPosition<Config::stages> position;
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) {
      for_each_tile<Config>(parameters, [&](int row, int column) {
        fill_lean_ring(ring, position, map_a, map_b, row, column, parameters.k);
      });
    }
  } else {
    const int consumer = threadIdx.x / 128 - 1;
    for_each_tile<Config>(parameters, [&](int row, int column) {
      WgmmaAccumulators<Config> accumulators = {};
      drain_lean_ring(ring, position, accumulators, consumer, parameters.k);
      store<Config>(parameters, accumulators, row + consumer * 64, column);
    });
  }
}

}  // namespace tilewright
