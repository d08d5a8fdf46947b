// Rung: loading and multiplying at the same time, by different warpgroups.
//
// A ring of slots connects them. The producer, one thread of warpgroup 0, fills slot after slot.
// The consumers multiply them in the same order, each its share of the tile's rows. Each slot has
// two mbarriers: `full` tells that its bytes have arrived, and `empty` tells that it has been read.
// Here all threads arrive at both, and those that need the state wait.
//
//   producer   load 0  load 1  load 2  load 3  load 4  (slot 0 empty?)  load 0 ...
//   consumer           mul 0   mul 1   mul 2   mul 3                    mul 4  ...
#pragma once
#include "ladder/wgmma_tiles.cuh"
#include "mainloop/pipeline.cuh"
#include "parameters.cuh"
#include "ptx/mbarrier.cuh"
#include "types.cuh"

namespace tilewright {

// All of a CTA's SMEM.
template <class Config>
struct Ring {
  Slot<Config> slots[Config::stages];
  uint64_t full[Config::stages];
  uint64_t empty[Config::stages];
};

// The arrivals in a phase: all consumer threads and the producer.
template <class Config>
constexpr int everybody = Config::consumers * 128 + 1;

// Initializes the ring's mbarriers for this many arrivals in a phase; called by one thread.
template <class Config>
__device__ __forceinline__ void init_ring(Ring<Config>& ring, int full_arrivals,
                                          int empty_arrivals) {
  for (int slot = 0; slot < Config::stages; ++slot) {
    mbarrier_init(shared_address(&ring.full[slot]), full_arrivals);
    mbarrier_init(shared_address(&ring.empty[slot]), empty_arrivals);
  }
}

// The producer's thread loads all k-blocks of the tile at (row, column).
template <class Config>
__device__ __forceinline__ void fill_ring(Ring<Config>& ring,
                                          RingPosition<Config::stages>& position,
                                          const TensorMap& map_a, const TensorMap& map_b, int row,
                                          int column, int k_extent) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    const uint32_t full = shared_address(&ring.full[position.slot]);
    const uint32_t empty = shared_address(&ring.empty[position.slot]);
    Slot<Config>& slot = ring.slots[position.slot];
    mbarrier_arrive(empty);
    mbarrier_wait(empty, position.parity);
    mbarrier_arrive_expect_tx(full, sizeof(slot));
    tma_load(shared_address(slot.a), map_a, k, row, 0, full);
    tma_load(shared_address(slot.b), map_b, k, column, 0, full);
    position.advance();
  }
}

// A consumer warpgroup multiplies its row blocks, from number `first` on, by all k-blocks.
template <class Config, int row_blocks>
__device__ __forceinline__ void drain_ring(Ring<Config>& ring,
                                           RingPosition<Config::stages>& position,
                                           WgmmaAccumulators<Config> (&accumulators)[row_blocks],
                                           int first, int k_extent) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    const uint32_t full = shared_address(&ring.full[position.slot]);
    const uint32_t empty = shared_address(&ring.empty[position.slot]);
    mbarrier_arrive(full);
    mbarrier_wait(full, position.parity);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
      multiply<Config>(accumulators[i], ring.slots[position.slot], first + i);
    }
    wgmma_commit();
    wgmma_wait<0>();
    mbarrier_arrive(empty);
    position.advance();
  }
#pragma unroll
  for (int i = 0; i < row_blocks; ++i) wgmma_results(accumulators[i]);
}

template <class Config>
__device__ __forceinline__ void wgmma_pipelined_kernel(const TensorMap& map_a,
                                                       const TensorMap& map_b,
                                                       const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  Ring<Config>& ring = *reinterpret_cast<Ring<Config>*>(smem);
  static_assert(sizeof(ring) == Config::smem_bytes, "hopper.py and wgmma_pipelined.cuh agree");
  const int tiles_n = parameters.n / Config::tile_n;
  const int row = blockIdx.x / tiles_n * Config::tile_m;
  const int column = blockIdx.x % tiles_n * Config::tile_n;

  if (threadIdx.x == 0) init_ring(ring, everybody<Config>, everybody<Config>);
  __syncthreads();

  RingPosition<Config::stages> position;
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) {
      fill_ring(ring, position, map_a, map_b, row, column, parameters.k);
    }
  } else {
    for (int slot = 0; slot < Config::stages; ++slot) {
      mbarrier_arrive(shared_address(&ring.empty[slot]));  // all slots are empty at first
    }
    constexpr int row_blocks = Config::tile_m / 64 / Config::consumers;
    const int first = (threadIdx.x / 128 - 1) * row_blocks;
    WgmmaAccumulators<Config> accumulators[row_blocks] = {};
    drain_ring(ring, position, accumulators, first, parameters.k);
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
      store<Config>(parameters, accumulators[i], row + (first + i) * 64, column);
    }
  }
}

}  // namespace tilewright
