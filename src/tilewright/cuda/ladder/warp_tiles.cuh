// Rung: a warp makes a 64x64 block of the tile. Its lanes are interleaved, so they read SMEM in
// float4 without bank conflicts.
//
// A CTA has 4 warps, 2x2. A lane has 8 rows of its warp's block, and 4 columns in each of 4 slices
// of 16. Its 8 + 16 elements of A and B make 128 products: 5.3 per element, 4 with 8x8.
//
//                slice 0        slice 1    ...
//               n 0  4  8 12  | 16 20 24 28 |
//     rows 0-7  l0 l1 l2 l3  | l0 l1 l2 l3 |          l0: lane 0, 8x4 elements
//     rows 8-15 l4 l5 l6 l7  | l4 l5 l6 l7 |
//
// A is transposed on its way into SMEM, so a lane's 8 rows are neighbors there. The transposing
// stores are the price: four lanes that hold one row of A store to the same bank.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/cta_tile.cuh"
#include "ladder/double_buffered.cuh"
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"

namespace tilewright {

template <class Config>
struct LaneTile {
  static constexpr int size = 64;                       // of the warp's block
  static constexpr int thread_m = 8, thread_n = 16;     // of a lane
  static constexpr int lanes_n = 32 * thread_m / size;  // side by side
  static constexpr int slice_n = lanes_n * 4;  // columns from one float4 of a lane to the next
  static constexpr int warps_n = Config::tile_n / size;
  static_assert(size * size == 32 * thread_m * thread_n);
  static_assert(Config::tile_m / size * warps_n * 32 == Config::threads);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Place of the lane's first element in the CTA's tile.
  const int m = warp / warps_n * size + lane / lanes_n * thread_m;
  const int n = warp % warps_n * size + lane % lanes_n * 4;
  float sums[thread_m][thread_n] = {};

  // The column in the CTA's tile of the lane's column number j.
  __device__ __forceinline__ int column(int j) const { return n + j / 4 * slice_n + j % 4; }

  // a_tile: (tile_k, tile_m); b_tile: (tile_k, tile_n).
  __device__ __forceinline__ void multiply(const float (&a_tile)[Config::tile_k][Config::tile_m],
                                           const float (&b_tile)[Config::tile_k][Config::tile_n]) {
#pragma unroll
    for (int k = 0; k < Config::tile_k; ++k) {
      alignas(16) float a[thread_m], b[thread_n];
#pragma unroll
      for (int i = 0; i < thread_m; i += 4) {
        *reinterpret_cast<float4*>(a + i) = load4(&a_tile[k][m + i]);
      }
#pragma unroll
      for (int j = 0; j < thread_n; j += 4) {
        *reinterpret_cast<float4*>(b + j) = load4(&b_tile[k][column(j)]);
      }
#pragma unroll
      for (int i = 0; i < thread_m; ++i) {
#pragma unroll
        for (int j = 0; j < thread_n; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
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
      for (int j = 0; j < thread_n; j += 2) {
        row.store_pair(sums[i][j], sums[i][j + 1], cta.n + column(j));
      }
    }
  }
};

template <class Config>
struct TransposedTiles {
  alignas(16) float a[Config::tile_k][Config::tile_m];
  alignas(16) float b[Config::tile_k][Config::tile_n];

  __device__ __forceinline__ void put(const CtaTile<Config>& cta,
                                      const FetchedTiles<Config>& fetched) {
    cta.for_each_of_a(0, [&](int pass, int row, int column, const float*) {
      a[column][row] = fetched.a[pass].x;
      a[column + 1][row] = fetched.a[pass].y;
      a[column + 2][row] = fetched.a[pass].z;
      a[column + 3][row] = fetched.a[pass].w;
    });
    cta.for_each_of_b(0, [&](int pass, int row, int column, const float*) {
      store_shared(shared_address(&b[row][column]), fetched.b[pass]);
    });
  }
};

template <class Config>
__device__ __forceinline__ void warp_tiles_kernel(const GemmParameters& parameters) {
  __shared__ TransposedTiles<Config> tiles[2];
  multiply_double_buffered<Config, LaneTile<Config>>(parameters, tiles);
}

}  // namespace tilewright
