// Rung: a warp makes a 64x64 block of the tile, its lanes interleaved so that SMEM is read in
// float4 without bank conflicts.
//
// A CTA has 4 warps, 2x2. Of a warp's block a lane has 8 rows, and 4 columns in each of 4 slices of
// 16: its 8 + 16 elements of A and B make 128 products, twice as many for each element as 8x8.
//
//                slice 0        slice 1    ...
//               n 0  4  8 12  | 16 20 24 28 |
//     rows 0-7  l0 l1 l2 l3  | l0 l1 l2 l3 |          l0: lane 0, 8x4 elements
//     rows 8-15 l4 l5 l6 l7  | l4 l5 l6 l7 |
//
// A is transposed on its way into SMEM, so that a lane's 8 rows are neighbours there. The
// transposing stores pay for it: four lanes that hold one row of A store to the same bank.
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "ladder/cta_tile.cuh"
#include "ladder/double_buffered.cuh"

namespace tilewright {

template <class Config>
struct WarpTile {
  static constexpr int size = 64;                   // of the warp's block
  static constexpr int thread_m = 8, thread_n = 4;  // of a lane, in each slice
  static constexpr int slice_n = 32 / (size / thread_m) * thread_n;
  static constexpr int slices = size / slice_n;
  static constexpr int warps_n = Config::tile_n / size;
  static_assert(Config::tile_m / size * warps_n * 32 == Config::threads);

  // Of the lane's first element, in the CTA's tile.
  const int m =
      threadIdx.x / 32 / warps_n * size + threadIdx.x % 32 / (slice_n / thread_n) * thread_m;
  const int n = threadIdx.x / 32 % warps_n * size + threadIdx.x % (slice_n / thread_n) * thread_n;
  float sums[thread_m][slices][thread_n] = {};

  // a_tile: (tile_k, tile_m); b_tile: (tile_k, tile_n).
  __device__ __forceinline__ void multiply(const float (&a_tile)[Config::tile_k][Config::tile_m],
                                           const float (&b_tile)[Config::tile_k][Config::tile_n]) {
#pragma unroll
    for (int k = 0; k < Config::tile_k; ++k) {
      alignas(16) float a[thread_m], b[slices][thread_n];
#pragma unroll
      for (int i = 0; i < thread_m; i += 4) copy4(a + i, &a_tile[k][m + i]);
#pragma unroll
      for (int slice = 0; slice < slices; ++slice) copy4(b[slice], &b_tile[k][n + slice * slice_n]);
#pragma unroll
      for (int i = 0; i < thread_m; ++i) {
#pragma unroll
        for (int slice = 0; slice < slices; ++slice) {
#pragma unroll
          for (int j = 0; j < thread_n; ++j) {
            sums[i][slice][j] = fmaf(a[i], b[slice][j], sums[i][slice][j]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store(const GemmParameters& parameters,
                                        const CtaTile<Config>& cta) const {
    const Epilogue<Config> epilogue(parameters, 0);
#pragma unroll
    for (int i = 0; i < thread_m; ++i) {
      const EpilogueRow<Config> row = epilogue.at_row(cta.m + m + i);
#pragma unroll
      for (int slice = 0; slice < slices; ++slice) {
#pragma unroll
        for (int j = 0; j < thread_n; j += 2) {
          row.store_pair(sums[i][slice][j], sums[i][slice][j + 1], cta.n + n + slice * slice_n + j);
        }
      }
    }
  }
};

template <class Config>
struct TransposedTiles {
  alignas(16) float a[Config::tile_k][Config::tile_m];
  alignas(16) float b[Config::tile_k][Config::tile_n];

  __device__ __forceinline__ void put(const CtaTile<Config>& cta,
                                      const StagedTiles<Config>& staged) {
    cta.for_each_of_a(0, [&](int pass, int row, int column, const float*) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[column + i][row] = staged.a[pass][i];
    });
    cta.for_each_of_b(0, [&](int pass, int row, int column, const float*) {
      copy4(&b[row][column], staged.b[pass]);
    });
  }
};

template <class Config>
__device__ __forceinline__ void warp_tiles_kernel(const GemmParameters& parameters) {
  __shared__ TransposedTiles<Config> tiles[2];
  multiply_double_buffered<Config, WarpTile<Config>>(parameters, tiles);
}

}  // namespace tilewright
