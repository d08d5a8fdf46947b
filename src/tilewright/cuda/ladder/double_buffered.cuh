// Rung: two buffers, and the next tiles are on their way while the present ones are multiplied.
//
// The next tiles of A and B are loaded into registers before the products and stored to the other
// buffer after them: the loads' latency passes behind 1024 multiply-adds of each thread. One
// barrier a tile is left.
//
//     registers      | load 1 ......... | load 2 ......... |
//     buffer 0       | multiply 0       |     store 2 here -> | multiply 2
//     buffer 1       |     store 1 here -> | multiply 1    |
#pragma once
#include "kernels/parameters.cuh"
#include "ladder/cta_tile.cuh"
#include "ladder/thread_tile.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void double_buffered_kernel(const GemmParameters& parameters) {
  __shared__ __align__(16) float a_tiles[2][Config::tile_m][Config::tile_k];
  __shared__ __align__(16) float b_tiles[2][Config::tile_k][Config::tile_n];

  const CtaTile<Config> cta(parameters);
  ThreadTile<Config> thread;
  StagedTiles<Config> next;
  const auto put = [&](int buffer) {
    cta.for_each_of_a(0, [&](int pass, int row, int column, const float*) {
      copy4(&a_tiles[buffer][row][column], next.a[pass]);
    });
    cta.for_each_of_b(0, [&](int pass, int row, int column, const float*) {
      copy4(&b_tiles[buffer][row][column], next.b[pass]);
    });
  };

  next.fetch(cta, 0);
  put(0);
  __syncthreads();
  int buffer = 0;
#pragma unroll 1
  for (int k = Config::tile_k; k < parameters.k; k += Config::tile_k) {
    next.fetch(cta, k);
    thread.multiply(a_tiles[buffer], b_tiles[buffer]);
    buffer = 1 - buffer;
    put(buffer);  // everybody was done with it at the last barrier
    __syncthreads();
  }
  thread.multiply(a_tiles[buffer], b_tiles[buffer]);
  thread.store(parameters, cta);
}

}  // namespace tilewright
