// Rung: two CTAs whose tiles lie below each other read their common columns of B once.
//
// They are a cluster. Each loads its own tile of A and half of the tile of B, and TMA delivers that
// half into the SMEM of both. Together they read 2 x 128 rows of A and 256 columns of B from L2,
// two thirds of what they read before.
//
//                        B, first half   B, second half
//   CTA 0   A 0 ->        loads           receives
//   CTA 1   A 1 ->        receives        loads
//
// Two producers now fill a slot of both CTAs. So a slot counts as empty when the consumers of both
// CTAs have read it, and consumers tell both producers (mainloop/pipeline.cuh). A CTA must not end
// while the other may still send to it.
#pragma once
#include "ladder/wgmma_persistent.cuh"
#include "mainloop/pipeline.cuh"

namespace tilewright {

struct TileOrigin {
  int row, column;
};

// Calls body(locate) for the tiles of this CTA, which its cluster takes in pairs; locate() returns
// the place where the tile begins.
template <class Config, class Body>
__device__ __forceinline__ void for_my_tiles(const ClusterPlace<Config>& place,
                                             const GemmParameters& parameters, Body body) {
  constexpr int ctas = Config::cluster_m;
  const int tiles_m = parameters.m / (Config::tile_m * ctas);
  const int tiles_n = parameters.n / Config::tile_n;
  const uint32_t tiles = static_cast<uint32_t>(tiles_m) * tiles_n;
  for (uint32_t i = blockIdx.x / ctas; i < tiles; i += gridDim.x / ctas) {
    body([&] {
      const TileIndex tile = scheduled_tile<Config>(i, tiles_m, tiles_n);
      return TileOrigin{(tile.m * ctas + place.m) * Config::tile_m, tile.n * Config::tile_n};
    });
  }
}

// The producer's thread: all k-blocks of all tiles.
template <class Config>
__device__ __forceinline__ void fill_shared_ring(Ring<Config>& ring,
                                                 const Pipeline<Config>& pipeline,
                                                 const ClusterPlace<Config>& place,
                                                 const TensorMap& map_a, const TensorMap& map_b,
                                                 const GemmParameters& parameters) {
  constexpr uint16_t all_ctas = (1 << Config::cluster_m) - 1;
  constexpr int slice = Config::tile_n / Config::cluster_m;
  const int first = place.m * slice;  // first column of the tile that this CTA loads
  RingPosition<Config::stages> position;
  for_my_tiles(place, parameters, [&](auto locate) {
    const auto [row, column] = locate();
#pragma unroll 1
    for (int k = 0; k < parameters.k; k += Config::tile_k) {
      const uint32_t full = pipeline.begin_fill(position);
      Slot<Config>& slot = ring.slots[position.slot];
      tma_load(shared_address(slot.a), map_a, k, row, 0, full);
      tma_load_multicast(shared_address(slot.b) + first * TileB<Config>::row_bytes, map_b, k,
                         column + first, 0, full, all_ctas);
      position.advance();
    }
  });
}

template <class Config>
__device__ __forceinline__ void drain_shared_ring(Ring<Config>& ring,
                                                  const Pipeline<Config>& pipeline,
                                                  RingPosition<Config::stages>& position,
                                                  WgmmaAccumulators<Config>& accumulators,
                                                  int row_block, int k_extent) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    pipeline.wait_full(position);
    wgmma_fence();
    multiply<Config>(accumulators, ring.slots[position.slot], row_block);
    wgmma_commit();
    wgmma_wait<0>();
    pipeline.release(position.slot);
    position.advance();
  }
  wgmma_results(accumulators);
}

template <class Config>
__device__ __forceinline__ void wgmma_multicast_kernel(const TensorMap& map_a,
                                                       const TensorMap& map_b,
                                                       const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  Ring<Config>& ring = *reinterpret_cast<Ring<Config>*>(smem);
  static_assert(sizeof(ring) == Config::smem_bytes, "hopper.py and wgmma_pipelined.cuh agree");
  const ClusterPlace<Config> place;
  Pipeline<Config> pipeline(shared_address(ring.full), shared_address(ring.empty));

  if (threadIdx.x == 0) pipeline.init(Config::consumers);
  place.sync();

  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) fill_shared_ring(ring, pipeline, place, map_a, map_b, parameters);
    __syncwarp();  // place.sync takes whole warps
  } else {
    pipeline.join_as_consumer(place);
    const int consumer = threadIdx.x / 128 - 1;
    RingPosition<Config::stages> position;
    for_my_tiles(place, parameters, [&](auto locate) {
      const auto [row, column] = locate();
      WgmmaAccumulators<Config> accumulators = {};
      drain_shared_ring(ring, pipeline, position, accumulators, consumer, parameters.k);
      store<Config>(parameters, accumulators, row + consumer * 64, column);
    });
  }
  place.sync();  // the peer may still send here, and arrive (rule 16)
}

}  // namespace tilewright
