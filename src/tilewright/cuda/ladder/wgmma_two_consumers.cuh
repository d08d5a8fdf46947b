// Rung: the same kernel with a tile of 128 x 256 and two warpgroups that multiply it.
//
// Each loaded byte is used a third more often, and wgmmas of 256 columns read their 64 rows of A
// from SMEM half as often as those of 128. One warpgroup could not hold the tile: its 32768
// accumulators are 256 for each of 128 threads, and a thread has at most 255 registers.
//
//                   256 columns
//   rows   0..63    consumer 0    128 accumulators in a thread
//   rows  64..127   consumer 1
#pragma once
#include "ladder/wgmma_pipelined.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wgmma_two_consumers_kernel(const TensorMap& map_a,
                                                           const TensorMap& map_b,
                                                           const GemmParameters& parameters) {
  wgmma_pipelined_kernel<Config>(map_a, map_b, parameters);
}

}  // namespace tilewright
