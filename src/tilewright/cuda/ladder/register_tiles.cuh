// Rung: each thread makes 8x8 elements of out and keeps their sums in registers.
//
// A CTA of 256 threads makes a 128x128 tile of out, 16 of k at a time. For each k a thread reads 8
// elements of A and 8 of B from SMEM, and uses each of them 8 times:
//
//               b0 b1 b2 ... b7          (16, 128) of B in SMEM
//           a0 | .  .  .  .  . |
//           a1 | .  .  .  .  . |   64 sums in registers
//           .. | .  .  .  .  . |
//           a7 | .  .  .  .  . |
//     (128, 16) of A in SMEM
#pragma once
#include "ladder/cta_tile.cuh"
#include "ladder/thread_tile.cuh"
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void register_tiles_kernel(const GemmParameters& parameters) {
  __shared__ __align__(16) float a_tile[Config::tile_m][Config::tile_k];
  __shared__ __align__(16) float b_tile[Config::tile_k][Config::tile_n];

  const CtaTile<Config> cta(parameters);
  ThreadTile<Config> thread;
#pragma unroll 1
  for (int k = 0; k < parameters.k; k += Config::tile_k) {
    cta.for_each_of_a(k, [&](int, int row, int column, const float* from) {
      store_shared(shared_address(&a_tile[row][column]), load4(from));
    });
    cta.for_each_of_b(k, [&](int, int row, int column, const float* from) {
      store_shared(shared_address(&b_tile[row][column]), load4(from));
    });
    __syncthreads();
    thread.multiply(a_tile, b_tile);
    __syncthreads();  // all have read the tiles before they are overwritten
  }
  thread.store(parameters, cta);
}

}  // namespace tilewright
