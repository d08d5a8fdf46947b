// Rung: results leave by TMA, too.
//
// Each warp lays its 16 rows of the tile out in SMEM, and one of its threads hands them to TMA,
// which writes whole rows while the warp multiplies the next tile. Before the warp writes there
// again, that thread has waited until TMA has read them.
//
//   registers -> SMEM -> out           a store from registers writes half of each sector that it
//                                      touches: 4 lanes have 16 bytes of a row, a sector is 32
//
// In SMEM the rows are as long as the tile's: 512 bytes apart, so that the 8 rows that a warp
// writes at a time begin in the same bank.
#pragma once
#include "ladder/wgmma_registers.cuh"

namespace tilewright {

// A tile's results in SMEM, and the ring.
template <class Config>
struct StagedRing {
  alignas(1024) uint32_t staging[Config::tile_m / 16][16 * Config::tile_n / 2];  // for each warp
  Ring<Config> ring;
};

// 16 rows of the tile, row-major.
template <class Config>
struct RowMajorStaging {
  static __device__ __forceinline__ void write(uint32_t (&staging)[16 * Config::tile_n / 2],
                                               const GemmParameters& parameters,
                                               const Accumulators<Config>& accumulators, int row,
                                               int column) {
    for_each_word<Config>(parameters, accumulators, row, column,
                          [&](int, int pair_row, int pair_column, uint32_t word) {
                            staging[(pair_row % 16 * Config::tile_n + pair_column) / 2] = word;
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

  if (threadIdx.x == 0) pipeline.init();
  place.sync();

  if (threadIdx.x < 128) {
    release_registers<Config::producer_registers>();
    if (threadIdx.x == 0) fill_shared_ring(ring, pipeline, place, map_a, map_b, parameters);
    __syncwarp();
  } else {
    acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    const int consumer = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4;
    const bool issues = threadIdx.x % 32 == 0;
    RingPosition<Config::stages> position;
    Accumulators<Config> accumulators;
    for_my_tiles(place, parameters, [&](int row, int column) {
      multiply_tile(ring, pipeline, position, accumulators, consumer, parameters.k);
      if (issues) bulk_wait_read<0>();  // of the tile before (rule 13)
      __syncwarp();
      Staging<Config>::write(staging[warp], parameters, accumulators, row + consumer * 64, column);
      fence_proxy_async_shared();  // every writer, before the barrier (rule 1)
      __syncwarp();
      if (issues) {
        Staging<Config>::send(map_out, shared_address(staging[warp]), row + warp * 16, column);
        bulk_commit();
      }
    });
    if (issues) bulk_wait_read<0>();  // SMEM ends with the CTA (rule 15)
    __syncwarp();
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
