// Rung: four savings at the edges of the main loop.
//
// - The producer needs few registers and consumers need many: setmaxnreg moves them.
// - The first wgmma of a tile overwrites the accumulators, so none is set to zero.
// - The place of a tile is computed while its first wgmmas run.
// - Results are stored with a hint that they are not read soon, which leaves L2 to A and B.
//
//   registers of a thread     producer  consumers
//   as launched                  168       168        3 * 128 threads share 65536
//   after setmaxnreg              40       232
#pragma once
#include "ladder/wgmma_multicast.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/setmaxnreg.cuh"

namespace tilewright {

// The product of one tile, whatever the accumulators held before; `during_first` runs during the
// first wgmmas.
template <class Config, class During>
__device__ __forceinline__ void multiply_tile(Ring<Config>& ring, const Pipeline<Config>& pipeline,
                                              RingPosition<Config::stages>& position,
                                              WgmmaAccumulators<Config>& accumulators,
                                              int row_block, int k_extent, During during_first) {
#pragma unroll 1
  for (int k = 0; k < k_extent; k += Config::tile_k) {
    pipeline.wait_full(position);
    wgmma_fence();
    multiply<Config>(accumulators, ring.slots[position.slot], row_block, k > 0);
    wgmma_commit();
    if (k == 0) during_first();
    wgmma_wait<0>();
    pipeline.release(position.slot);
    position.advance();
  }
  wgmma_results(accumulators);
}

template <class Config>
__device__ __forceinline__ void wgmma_registers_kernel(const TensorMap& map_a,
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
    release_registers<Config::producer_registers>();
    if (threadIdx.x == 0) fill_shared_ring(ring, pipeline, place, map_a, map_b, parameters);
    __syncwarp();  // place.sync takes whole warps
  } else {
    acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    const int consumer = threadIdx.x / 128 - 1;
    RingPosition<Config::stages> position;
    WgmmaAccumulators<Config> accumulators;
    for_my_tiles(place, parameters, [&](auto locate) {
      TileOrigin tile;
      multiply_tile(ring, pipeline, position, accumulators, consumer, parameters.k,
                    [&] { tile = locate(); });
      store<Config>(parameters, accumulators, tile.row + consumer * 64, tile.column,
                    store_streaming);
    });
  }
  place.sync();
}

}  // namespace tilewright
