// Rung: the same kernel with a tile of 128 x 128.
//
// Each loaded byte is used twice as often. A k-block of a 64 x 64 tile has 64^3 multiply-adds and
// loads 2 * 64^2 elements. With 128 x 128 it has 4 times as many multiply-adds and loads twice the
// elements. The four warps multiply two blocks of 64 rows, each by all 128 columns of B.
//
//               128 columns                  128 columns
//   row block 0  |-------|        64 x 64     |---|---|
//   row block 1  |-------|        tiles       |---|---|     the same outputs, twice the bytes
#pragma once
#include "ladder/wgmma_basic.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wgmma_larger_tile_kernel(const TensorMap& map_a,
                                                         const TensorMap& map_b,
                                                         const GemmParameters& parameters) {
  wgmma_basic_kernel<Config>(map_a, map_b, parameters);
}

}  // namespace tilewright
