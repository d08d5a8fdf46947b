// Rung: cp.async brings the tiles from GMEM to SMEM past the registers.
//
// A thread only names the source and the destination, and the copies run while it multiplies.
// Before it multiplies their tile, it waits for its own copies, then at the barrier for all others.
//
//     cp.async       | copy 1 ......... | copy 2 ......... |
//     buffer 0       | multiply 0       |   2 arrives here | multiply 2
//     buffer 1       |   1 arrives here | multiply 1       |
#pragma once
#include "ladder/cta_tile.cuh"
#include "ladder/thread_tile.cuh"
#include "parameters.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void async_copies_kernel(const GemmParameters& parameters) {
  __shared__ __align__(16) float a_tiles[2][Config::tile_m][Config::tile_k];
  __shared__ __align__(16) float b_tiles[2][Config::tile_k][Config::tile_n];

  const CtaTile<Config> cta(parameters);
  ThreadTile<Config> thread;
  const auto start_copies = [&](int k, int buffer) {
    cta.for_each_of_a(k, [&](int, int row, int column, const float* from) {
      cp_async<16>(shared_address(&a_tiles[buffer][row][column]), from, 16);
    });
    cta.for_each_of_b(k, [&](int, int row, int column, const float* from) {
      cp_async<16>(shared_address(&b_tiles[buffer][row][column]), from, 16);
    });
    cp_async_commit();
  };

  start_copies(0, 0);
  int buffer = 0;
#pragma unroll 1
  for (int k = Config::tile_k; k <= parameters.k; k += Config::tile_k) {
    cp_async_wait<0>();
    __syncthreads();  // all of this tile is there, and all threads are done with the other buffer
    if (k < parameters.k) start_copies(k, 1 - buffer);
    thread.multiply(a_tiles[buffer], b_tiles[buffer]);
    buffer = 1 - buffer;
  }
  thread.store(parameters, cta);
}

}  // namespace tilewright
