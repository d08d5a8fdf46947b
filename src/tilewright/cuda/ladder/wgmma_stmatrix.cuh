// Rung: stmatrix lays out the results in SMEM without bank conflicts.
//
// One stmatrix takes four 8x8 blocks from the registers of a warp, just as wgmma leaves them, and
// writes each of their rows as 16 bytes: one instruction for 16 x 16 results instead of four. The
// rows are cut into panels of 64 columns, 128 bytes, and swizzled. So the 8 rows of a block lie in
// different banks, and TMA undoes the swizzle when it stores.
//
//   panel 0 of 4, chunks of 8 columns    r 0 | 0 1 2 3 4 5 6 7
//                                        r 1 | 1 0 3 2 5 4 7 6      (layout/swizzle.cuh)
//                                        ...
#pragma once
#include "ladder/wgmma_async_store.cuh"
#include "layout/swizzle.cuh"
#include "ptx/stmatrix.cuh"

namespace tilewright {

// Lays out a warp's results as panels of 64 columns, one after another, row-major and swizzled.
template <class Config>
struct SwizzledStaging {
  static constexpr int panel_columns = 64;
  static constexpr int panel_bytes = 16 * panel_columns * 2;

  static __device__ __forceinline__ void write(StagedRows<Config>& staging,
                                               const GemmParameters& parameters,
                                               const WgmmaAccumulators<Config>& accumulators,
                                               int row, int column) {
    uint32_t words[Config::tile_n / 4];
    for_each_pair<Config>(parameters, accumulators, row, column,
                          [&](int pair, int, int, uint32_t word) { words[pair] = word; });
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < Config::tile_n; c += 16) {
      const uint32_t panel = shared_address(staging) + c / panel_columns * panel_bytes;
      const int q = c / 4;  // pairs of the blocks at c and c + 8, two each
      stmatrix_x4(
          panel + SwizzledRows<panel_columns>::offset(lane % 16, c % panel_columns + lane / 16 * 8),
          {words[q], words[q + 1], words[q + 2], words[q + 3]});
    }
  }

  static __device__ __forceinline__ void send(const TensorMap& map_out, uint32_t staging, int row,
                                              int column) {
#pragma unroll
    for (int c = 0; c < Config::tile_n; c += panel_columns) {
      tma_store(map_out, staging + c / panel_columns * panel_bytes, column + c, row, 0);
    }
  }
};

template <class Config>
__device__ __forceinline__ void wgmma_stmatrix_kernel(const TensorMap& map_a,
                                                      const TensorMap& map_b,
                                                      const TensorMap& map_out,
                                                      const GemmParameters& parameters) {
  run_with_async_store<Config, SwizzledStaging>(map_a, map_b, map_out, parameters);
}

}  // namespace tilewright
