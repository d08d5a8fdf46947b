// Rung: swizzled stages for mma.sync, filled while others are multiplied, and stores of whole rows.
//
// 1. Chunks of 16 bytes trade places within their row (layout/swizzle.cuh): copies and ldmatrix
//    touch every bank once, and no byte is spent on padding.
// 2. cp.async brings tiles of A and B into a ring of `stages` without registers, in one group per
//    tile. Once at most stages - 2 groups are under way, the oldest tile in the ring has landed.
//
//      multiply    | tile 0 | tile 1 | tile 2 | ...
//      copies of   | 3      | 4      | 5      |      (stages = 4; 0 to 2 were issued before)
//      ring slot   | 3      | 0      | 1      |      the one that all threads have just left
//
// 3. Out is packed to 2 bytes an element and crosses SMEM by stmatrix (sm_90). So a row leaves in
//    neighboring 16-byte stores, 256 bytes in all, instead of scattered small stores.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "layout/swizzle.cuh"
#include "mainloop/mma_fragments.cuh"
#include "parameters.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/stmatrix.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
struct StagedTiles {
  using Input = typename Config::Input;
  Input a[Config::stages][Config::tile_m * Config::tile_k];
  Input b[Config::stages][Config::tile_k * Config::tile_n];
};

// Starts copying a (rows, columns) tile to the SMEM address `tile`.
template <int rows, int columns, int threads, class Input>
__device__ __forceinline__ void copy_tile_async(uint32_t tile, const Input* source,
                                                int64_t stride) {
  for_each_chunk<rows, columns, threads>([&](int row, int column) {
    cp_async<16>(tile + SwizzledRows<columns>::offset(row, column), source + row * stride + column,
                 16);
  });
}

// Finishes the warp's block, which starts at (m, n) of out, and puts it at (block.m, block.n) of
// the tile of out in SMEM.
template <class Config>
__device__ __forceinline__ void stage_block(const Accumulators<Config>& accumulators,
                                            const Epilogue<Config>& epilogue,
                                            const WarpBlock<Config>& block, uint32_t tile) {
  using Output = typename Config::Output;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Config::warp_m / 16; ++i) {
    const int m = block.m + i * 16;
    const EpilogueRow<Config> rows[] = {epilogue.at_row(block.tile_m + m + lane / 4),
                                        epilogue.at_row(block.tile_m + m + lane / 4 + 8)};
#pragma unroll
    for (int j = 0; j < Config::warp_n / 16; ++j) {
      const int n = block.n + j * 16;
      uint32_t words[4];  // of four 8x8 matrices: the upper left, lower left, upper right...
#pragma unroll
      for (int matrix = 0; matrix < 4; ++matrix) {
        const float* pair = accumulators.d[i][j * 2 + matrix / 2] + matrix % 2 * 2;
        const int column = block.tile_n + n + matrix / 2 * 8 + lane % 4 * 2;
        const EpilogueRow<Config>& row = rows[matrix % 2];
        words[matrix] = pack<Output>(row.finish(pair[0], column), row.finish(pair[1], column + 1));
      }
      stmatrix_x4(tile + SwizzledRows<Config::tile_n>::offset(m + lane % 16, n + lane / 16 * 8),
                  words);
    }
  }
}

template <class Config>
__device__ __forceinline__ void mma_swizzled_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  static_assert(sizeof(StagedTiles<Config>) == Config::smem_bytes);
  static_assert(Config::tile_m * Config::tile_n * sizeof(typename Config::Output) <=
                Config::smem_bytes);
  extern __shared__ __align__(128) unsigned char smem[];
  const StagedTiles<Config>& tiles = *reinterpret_cast<const StagedTiles<Config>*>(smem);

  const WarpBlock<Config> block(parameters);
  const int tiles_k = parameters.k / Config::tile_k;
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + block.tile_m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + block.tile_n;

  // One group for each tile, an empty one beyond the end of k.
  const auto copy = [&](int k_tile) {
    if (k_tile < tiles_k) {
      const int slot = k_tile % Config::stages, k = k_tile * Config::tile_k;
      copy_tile_async<Config::tile_m, Config::tile_k, Config::threads>(
          shared_address(tiles.a[slot]), a + k, a_stride);
      copy_tile_async<Config::tile_k, Config::tile_n, Config::threads>(
          shared_address(tiles.b[slot]), b + k * b_stride, b_stride);
    }
    cp_async_commit();
  };
  for (int k_tile = 0; k_tile < Config::stages - 1; ++k_tile) copy(k_tile);

  Accumulators<Config> accumulators;
#pragma unroll 1
  for (int k_tile = 0; k_tile < tiles_k; ++k_tile) {
    cp_async_wait<Config::stages - 2>();
    __syncthreads();  // this tile has landed for all threads, and all have left the one before
    copy(k_tile + Config::stages - 1);
    const int slot = k_tile % Config::stages;
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += 16) {
      Fragments<Config> fragments;
      fragments.load(shared_address(tiles.a[slot]), shared_address(tiles.b[slot]), block.m, block.n,
                     k);
      accumulators.multiply(fragments);
    }
  }
  __syncthreads();  // all threads have read the last tile; out takes its place

  const Epilogue<Config> epilogue(parameters, 0);
  stage_block(accumulators, epilogue, block, shared_address(smem));
  __syncthreads();
  for_each_chunk<Config::tile_m, Config::tile_n, Config::threads>([&](int row, int column) {
    typename Config::Output* out = epilogue.at_row(block.tile_m + row).out;
    *reinterpret_cast<uint4*>(out + block.tile_n + column) =
        *reinterpret_cast<const uint4*>(smem + SwizzledRows<Config::tile_n>::offset(row, column));
  });
}

}  // namespace tilewright
