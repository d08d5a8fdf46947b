// Rung: CTAs stay, one per SM, and take tile after tile.
//
// The producer does not stop at the end of a tile: while the consumers still write theirs to out,
// it fills the ring for the next one. The kernel now also chooses the order of tiles. So tiles that
// are in progress at the same time can lie close together and find each other's rows of A and
// columns of B in L2 (layout/raster.cuh).
//
//   producer   load load load load | load load load load | ...
//   consumers       mul  mul  mul  mul   store     mul  mul  mul  mul   store
#pragma once
#include "ladder/wgmma_pipelined.cuh"
#include "layout/raster.cuh"

namespace tilewright {

// Calls body(row, column) with the start of each tile of this CTA.
template <class Config, class Body>
__device__ __forceinline__ void for_each_tile(const GemmParameters& parameters, Body body) {
  const int tiles_m = parameters.m / Config::tile_m, tiles_n = parameters.n / Config::tile_n;
  const uint32_t tiles = static_cast<uint32_t>(tiles_m) * tiles_n;
  for (uint32_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const TileIndex tile = scheduled_tile<Config>(i, tiles_m, tiles_n);
    body(tile.m * Config::tile_m, tile.n * Config::tile_n);
  }
}

template <class Config>
__device__ __forceinline__ void wgmma_persistent_kernel(const TensorMap& map_a,
                                                        const TensorMap& map_b,
                                                        const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  Ring<Config>& ring = *reinterpret_cast<Ring<Config>*>(smem);
  static_assert(sizeof(ring) == Config::smem_bytes, "hopper.py and wgmma_pipelined.cuh agree");

  if (threadIdx.x == 0) init_ring(ring, everybody<Config>, everybody<Config>);
  __syncthreads();

  RingPosition<Config::stages> position;
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) {
      for_each_tile<Config>(parameters, [&](int row, int column) {
        fill_ring(ring, position, map_a, map_b, row, column, parameters.k);
      });
    }
  } else {
    for (int slot = 0; slot < Config::stages; ++slot) {
      mbarrier_arrive(shared_address(&ring.empty[slot]));  // all slots are empty at first
    }
    const int consumer = threadIdx.x / 128 - 1;
    for_each_tile<Config>(parameters, [&](int row, int column) {
      WgmmaAccumulators<Config> accumulators[1] = {};
      drain_ring(ring, position, accumulators, consumer, parameters.k);
      store<Config>(parameters, accumulators[0], row + consumer * 64, column);
    });
  }
}

}  // namespace tilewright
