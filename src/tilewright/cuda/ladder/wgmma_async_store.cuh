// Rung: TMA also stores the results.
//
// Each warp lays out its 16 rows of the tile in SMEM, and one of its threads hands them to TMA. TMA
// writes whole rows while the warp multiplies the next tile. Before the warp writes there again,
// that thread waits until TMA has read the rows.
//
//   registers -> SMEM -> out           a store from registers writes a sector in each of 8 rows,
//                                      and the warp multiplies nothing until it has issued them all
//
// In SMEM the rows are as long as the tile's, so they are 512 bytes apart. So the 8 rows that a
// warp writes at a time begin in the same bank.
#pragma once
#include "ladder/wgmma_registers.cuh"

namespace tilewright {

// The results of one warp: 16 rows of the tile.
template <class Config>
using StagedRows = typename Config::Output[16][Config::tile_n];

// All of a CTA's SMEM: the results of a tile, and the ring.
template <class Config>
struct StagedRing {
  alignas(1024) StagedRows<Config> staging[Config::tile_m / 16];  // one for each warp
  Ring<Config> ring;
};

// Lays out a warp's results in the order of out.
template <class Config>
struct RowMajorStaging {
  static __device__ __forceinline__ void write(StagedRows<Config>& staging,
                                               const GemmParameters& parameters,
                                               const WgmmaAccumulators<Config>& accumulators,
                                               int row, int column) {
    for_each_pair<Config>(parameters, accumulators, row, column,
                          [&](int, int pair_row, int64_t pair_column, uint32_t word) {
                            *reinterpret_cast<uint32_t*>(&staging[pair_row % 16][pair_column]) =
                                word;
                          });
  }

  static __device__ __forceinline__ void send(const TensorMap& map_out, uint32_t staging, int row,
                                              int column) {
    tma_store(map_out, staging, column, row, 0);
  }
};

template <class Config, template <class> class Staging>
__device__ __forceinline__ void run_with_async_store(const TensorMap& map_a, const TensorMap& map_b,
                                                     const TensorMap& map_out,
                                                     const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  auto& [staging, ring] = *reinterpret_cast<StagedRing<Config>*>(smem);
  static_assert(sizeof(StagedRing<Config>) == Config::smem_bytes,
                "hopper.py and wgmma_async_store.cuh agree");
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
    const int consumer = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4;
    const bool issues = threadIdx.x % 32 == 0;
    RingPosition<Config::stages> position;
    WgmmaAccumulators<Config> accumulators;
    for_my_tiles(place, parameters, [&](auto locate) {
      TileOrigin tile;
      multiply_tile(ring, pipeline, position, accumulators, consumer, parameters.k,
                    [&] { tile = locate(); });
      if (issues) bulk_wait_read<0>();  // reads of the tile before (rule 13)
      __syncwarp();
      Staging<Config>::write(staging[warp], parameters, accumulators, tile.row + consumer * 64,
                             tile.column);
      fence_proxy_async_shared();  // every writer, before the barrier (rule 1)
      __syncwarp();
      if (issues) {
        Staging<Config>::send(map_out, shared_address(staging[warp]), tile.row + warp * 16,
                              tile.column);
        bulk_commit();
      }
    });
    // The stores must end before the CTA's SMEM does (rule 15).
    if (issues) bulk_wait_read<0>();
    __syncwarp();  // place.sync takes whole warps
  }
  place.sync();
}

template <class Config>
__device__ __forceinline__ void wgmma_async_store_kernel(const TensorMap& map_a,
                                                         const TensorMap& map_b,
                                                         const TensorMap& map_out,
                                                         const GemmParameters& parameters) {
  run_with_async_store<Config, RowMajorStaging>(map_a, map_b, map_out, parameters);
}

}  // namespace tilewright
