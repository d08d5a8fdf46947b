// Rung: the same kernel, with tiles taken along Hilbert's curve.
//
// The tiles in progress at one time are a run of the order. Along the curve any run stays together,
// whatever its length and wherever it begins. Blocks stay together only if their size is that of a
// wave and the CTAs keep in step (layout/raster.cuh: hilbert_tile).
//
//   rows     0 1 2 3     blocks   0 1 | 8 ..    Hilbert   0 3 4 5
//            4 5 6 7              2 3 |                   1 2 7 6
//            8 ..                 4 5 |                  14 13 8 9
//                                 6 7 |                  15 12 11 10
#pragma once
#include "ladder/wgmma_async_store.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wgmma_hilbert_kernel(const TensorMap& map_a, const TensorMap& map_b,
                                                     const TensorMap& map_out,
                                                     const GemmParameters& parameters) {
  wgmma_async_store_kernel<Config>(map_a, map_b, map_out, parameters);
}

}  // namespace tilewright
