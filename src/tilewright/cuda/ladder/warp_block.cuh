// The rungs with tiles in SMEM share this: the block of out that a warp makes, and the copy of a
// tile of A or B by the CTA. Both operands are row-major.
#pragma once
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// The CTA's tile of out, and in it this warp's block of (warp_m, warp_n). Consecutive warps have
// neighboring blocks.
template <class Config>
struct WarpBlock {
  static constexpr int warps_n = Config::tile_n / Config::warp_n;
  static_assert(Config::tile_m / Config::warp_m * warps_n * 32 == Config::threads);

  int tile_m, tile_n;  // start of the tile in out
  int m, n;            // start of the block in the tile

  __device__ __forceinline__ explicit WarpBlock(const GemmParameters& parameters) {
    const int tiles_n = parameters.n / Config::tile_n, warp = threadIdx.x / 32;
    tile_m = blockIdx.x / tiles_n * Config::tile_m;
    tile_n = blockIdx.x % tiles_n * Config::tile_n;
    m = warp / warps_n * Config::warp_m;
    n = warp % warps_n * Config::warp_n;
  }
};

// Copies 8 elements of 2 bytes to an SMEM address, through registers.
template <class Input>
__device__ __forceinline__ void copy_chunk(uint32_t destination, const Input* source) {
  const uint4 chunk = *reinterpret_cast<const uint4*>(source);
  store_shared(destination, {chunk.x, chunk.y, chunk.z, chunk.w});
}

// Calls copy(row, column) for each of this thread's chunks of 8 elements of a (rows, columns) tile;
// consecutive threads take consecutive chunks of a row.
template <int rows, int columns, int threads, class Copy>
__device__ __forceinline__ void for_each_chunk(Copy copy) {
  constexpr int threads_per_row = columns / 8, rows_at_once = threads / threads_per_row;
  static_assert(rows_at_once * threads_per_row == threads && rows % rows_at_once == 0);
  const int row = threadIdx.x / threads_per_row, column = threadIdx.x % threads_per_row * 8;
#pragma unroll
  for (int pass = 0; pass < rows / rows_at_once; ++pass) copy(row + pass * rows_at_once, column);
}

// Copies a (rows, columns) tile of 2-byte elements to the SMEM address `tile`, through registers.
template <class Layout, int rows, int columns, int threads, class Input>
__device__ __forceinline__ void copy_tile(uint32_t tile, const Input* source, int64_t stride) {
  for_each_chunk<rows, columns, threads>([&](int row, int column) {
    copy_chunk(tile + Layout::offset(row, column), source + row * stride + column);
  });
}

}  // namespace tilewright
