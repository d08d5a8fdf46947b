// Rung: two buffers; the next tiles are loaded while the present ones are multiplied.
//
// The next tiles of A and B are loaded into registers before the products and stored to the other
// buffer after them, so 1024 multiply-adds of each thread hide the latency of the loads. Each tile
// needs only one barrier.
//
//     registers      | load 1 ......... | load 2 ......... |
//     buffer 0       | multiply 0       |     store 2 here -> | multiply 2
//     buffer 1       |     store 1 here -> | multiply 1    |
#pragma once
#include "ladder/cta_tile.cuh"
#include "ladder/thread_tile.cuh"
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"

namespace tilewright {

// A tile of A and one of B in SMEM, as they are in GMEM.
template <class Config>
struct Tiles {
  alignas(16) float a[Config::tile_m][Config::tile_k];
  alignas(16) float b[Config::tile_k][Config::tile_n];

  __device__ __forceinline__ void put(const CtaTile<Config>& cta,
                                      const FetchedTiles<Config>& fetched) {
    cta.for_each_of_a(0, [&](int pass, int row, int column, const float*) {
      store_shared(shared_address(&a[row][column]), fetched.a[pass]);
    });
    cta.for_each_of_b(0, [&](int pass, int row, int column, const float*) {
      store_shared(shared_address(&b[row][column]), fetched.b[pass]);
    });
  }
};

// Block: a thread's part of the CTA's tile of out, in registers.
template <class Config, class Block, class Tiles>
__device__ __forceinline__ void multiply_double_buffered(const GemmParameters& parameters,
                                                         Tiles (&tiles)[2]) {
  const CtaTile<Config> cta(parameters);
  FetchedTiles<Config> next;
  Block block;

  next.fetch(cta, 0);
  tiles[0].put(cta, next);
  __syncthreads();
  int buffer = 0;
#pragma unroll 1
  for (int k = Config::tile_k; k < parameters.k; k += Config::tile_k) {
    next.fetch(cta, k);
    block.multiply(tiles[buffer].a, tiles[buffer].b);
    buffer = 1 - buffer;
    tiles[buffer].put(cta, next);  // all threads were done with it at the last barrier
    __syncthreads();
  }
  block.multiply(tiles[buffer].a, tiles[buffer].b);
  block.store(parameters, cta);
}

template <class Config>
__device__ __forceinline__ void double_buffered_kernel(const GemmParameters& parameters) {
  __shared__ Tiles<Config> tiles[2];
  multiply_double_buffered<Config, ThreadTile<Config>>(parameters, tiles);
}

}  // namespace tilewright
