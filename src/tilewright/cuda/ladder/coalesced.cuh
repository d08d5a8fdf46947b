// Rung: one thread for each element of out, with the threads of a warp side by side.
//
// A warp's 32 lanes take 32 neighboring columns of one row. They all read the same element of A,
// and neighbors of B and out: 128 bytes in a row, which use every byte of four sectors.
//
//      k ->                        n ->                        n ->
//     | x . . . . |   A           | 0 1 2 ... 31 | . |   B     | 0 1 2 ... 31 | . |   out
//     | . . . . . |               | . . . .      | . |         | . . . .      | . |
#pragma once
#include "ladder/one_element.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void coalesced_kernel(const GemmParameters& parameters) {
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int m = blockIdx.x / tiles_n * Config::tile_m + threadIdx.x / Config::tile_n;
  const int n = blockIdx.x % tiles_n * Config::tile_n + threadIdx.x % Config::tile_n;
  multiply_one_element<Config>(parameters, m, n);
}

}  // namespace tilewright
