// Rung: tiles come by TMA and are multiplied by wgmma, one after the other.
//
// One thread requests two boxes from TMA, and all threads wait for their bytes. Then four warps
// together multiply the boxes where they lie, in SMEM, and wait again. The kernel no longer handles
// addresses of elements, fragments or bank conflicts. But the memory system and the tensor cores
// take turns.
//
//   TMA     load      load      load
//   wgmma       mul       mul       mul
#pragma once
#include "ladder/wgmma_tiles.cuh"
#include "parameters.cuh"
#include "ptx/mbarrier.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wgmma_basic_kernel(const TensorMap& map_a, const TensorMap& map_b,
                                                   const GemmParameters& parameters) {
  __shared__ Slot<Config> slot;
  __shared__ uint64_t loaded;
  const uint32_t barrier = shared_address(&loaded);
  const int tiles_n = parameters.n / Config::tile_n;
  const int row = blockIdx.x / tiles_n * Config::tile_m;
  const int column = blockIdx.x % tiles_n * Config::tile_n;

  if (threadIdx.x == 0) mbarrier_init(barrier, Config::threads);
  __syncthreads();

  constexpr int row_blocks = Config::tile_m / 64;
  WgmmaAccumulators<Config> accumulators[row_blocks] = {};
  uint32_t parity = 0;
#pragma unroll 1
  for (int k = 0; k < parameters.k; k += Config::tile_k) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(barrier, sizeof(slot));
      tma_load(shared_address(slot.a), map_a, k, row, 0, barrier);
      tma_load(shared_address(slot.b), map_b, k, column, 0, barrier);
    } else {
      mbarrier_arrive(barrier);
    }
    mbarrier_wait(barrier, parity);
    parity ^= 1;

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) multiply<Config>(accumulators[i], slot, i);
    wgmma_commit();
    wgmma_wait<0>();  // the whole warpgroup's products are done: the tiles may be overwritten
  }

#pragma unroll
  for (int i = 0; i < row_blocks; ++i) {
    wgmma_results(accumulators[i]);
    store<Config>(parameters, accumulators[i], row + i * 64, column);
  }
}

}  // namespace tilewright
