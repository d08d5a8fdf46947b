// Rung: one thread for each element of out, with the threads of a warp below each other.
//
// A warp's 32 lanes read 32 rows of A at the same k: 32 addresses, a whole row apart. Each lies in
// a sector of its own and uses one of its eight floats. Their elements of out lie the same way.
//
//            k ->                          n ->
//   lane 0   | x . . . . . . . |           | x . . . |
//   lane 1   | x . . . . . . . |   A       | x . . . |   out
//   lane 2   | x . . . . . . . |           | x . . . |
#pragma once
#include "ladder/one_element.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void uncoalesced_kernel(const GemmParameters& parameters) {
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int m = blockIdx.x / tiles_n * Config::tile_m + threadIdx.x % Config::tile_m;
  const int n = blockIdx.x % tiles_n * Config::tile_n + threadIdx.x / Config::tile_m;
  multiply_one_element<Config>(parameters, m, n);
}

}  // namespace tilewright
