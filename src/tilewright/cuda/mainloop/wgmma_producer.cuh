// The producer of a warp-specialized kernel: one thread that brings tiles of A and B by TMA, in
// slices that the CTAs of a cluster multicast to each other (sm_90).
#pragma once
#include "mainloop/pipeline.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/cluster_place.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// Loads slice `slice` of `slices` of one operand's tile and sends it to `ctas`. K-major tiles are
// cut along mn, and each panel of an MN-major tile is cut along k.
template <class Operand, int slices>
__device__ __forceinline__ void load_slice(uint32_t tile, const TensorMap& map, int mn, int k,
                                           int batch, int slice, uint16_t ctas, uint32_t barrier) {
  auto load = [&](uint32_t destination, int x, int y) {
    if constexpr (slices > 1) {
      tma_load_multicast(destination, map, x, y, batch, barrier, ctas);
    } else {
      tma_load(destination, map, x, y, batch, barrier);
    }
  };
  const int offset = slice * ((Operand::mn_major ? Operand::tile_k : Operand::tile_mn) / slices);
  const uint32_t destination = tile + offset * Operand::row_bytes;
  if constexpr (Operand::mn_major) {
#pragma unroll
    for (int panel = 0; panel < Operand::panels; ++panel) {
      load(destination + panel * Operand::panel_bytes, mn + panel * Operand::panel_rows,
           k + offset);
    }
  } else {
    load(destination, k, mn + offset);
  }
}

// The producer; one thread executes it.
template <class Config>
__device__ __forceinline__ void produce(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const ClusterPlace<Config>& place,
                                        const TileLoop<Config>& tiles, const TensorMap& map_a,
                                        const TensorMap& map_b, const GemmParameters& parameters) {
  using Place = ClusterPlace<Config>;
  uint16_t sharing_a = 0, sharing_b = 0;  // CTAs, by rank
  for (int n = 0; n < Config::cluster_n; ++n) sharing_a |= 1 << Place::rank_of(place.m, n);
  for (int m = 0; m < Config::cluster_m; ++m) sharing_b |= 1 << Place::rank_of(m, place.n);
  const bool a_broadcast = is_broadcast(parameters, parameters.a);
  const bool b_broadcast = is_broadcast(parameters, parameters.b);
  const uint32_t slots = shared_address(storage.slots);

  RingPosition<Config::stages> position;
  tiles.for_each_tile([&](const auto& tile) {
    const int batch_a = a_broadcast ? 0 : tile.batch, batch_b = b_broadcast ? 0 : tile.batch;
#pragma unroll 1
    for (int k = 0; k < parameters.k; k += Config::tile_k) {
      const uint32_t barrier = pipeline.begin_fill(position);
      const uint32_t slot = slots + position.slot * Config::stage_bytes;
      load_slice<OperandA<Config>, Config::cluster_n>(slot, map_a, tile.row, k, batch_a, place.n,
                                                      sharing_a, barrier);
      load_slice<OperandB<Config>, Config::cluster_m>(slot + Config::a_bytes, map_b, tile.column, k,
                                                      batch_b, place.m, sharing_b, barrier);
      position.advance();
    }
  });
}

}  // namespace tilewright
