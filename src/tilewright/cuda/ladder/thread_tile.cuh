// One thread's block of the CTA's tile of out, in registers:
//
//                        n ->
//   thread    0   1   2  ...  15
//            16  17  18  ...  31      each 8x8 elements
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/cta_tile.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
struct ThreadTile {
  static constexpr int size = 8;
  static constexpr int threads_n = Config::tile_n / size;
  static_assert(Config::tile_m / size * threads_n == Config::threads);

  const int m = threadIdx.x / threads_n * size, n = threadIdx.x % threads_n * size;
  float sums[size][size] = {};

  // For each k, reads 8 + 8 elements from SMEM and multiplies them in 64 products. a_tile: (tile_m,
  // tile_k); b_tile: (tile_k, tile_n).
  __device__ __forceinline__ void multiply(const float (&a_tile)[Config::tile_m][Config::tile_k],
                                           const float (&b_tile)[Config::tile_k][Config::tile_n]) {
#pragma unroll
    for (int k = 0; k < Config::tile_k; ++k) {
      float a[size], b[size];
#pragma unroll
      for (int i = 0; i < size; ++i) a[i] = a_tile[m + i][k];
#pragma unroll
      for (int j = 0; j < size; ++j) b[j] = b_tile[k][n + j];
#pragma unroll
      for (int i = 0; i < size; ++i) {
#pragma unroll
        for (int j = 0; j < size; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
  }

  __device__ __forceinline__ void store(const GemmParameters& parameters,
                                        const CtaTile<Config>& cta) const {
    const Epilogue<Config> epilogue(parameters, 0);
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const EpilogueRow<Config> row = epilogue.at_row(cta.m + m + i);
#pragma unroll
      for (int j = 0; j < size; j += 2) {
        row.store_pair(sums[i][j], sums[i][j + 1], cta.n + n + j);
      }
    }
  }
};

}  // namespace tilewright
