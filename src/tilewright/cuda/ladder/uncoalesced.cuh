// Rung: one thread for each element of out, and the threads of a warp below each other.
//
// A warp's 32 lanes read 32 rows of A at the same k: 32 addresses a whole row apart, each in a
// sector of its own, of which one float in eight is used. Their elements of out lie the same way.
//
//            k ->                          n ->
//   lane 0   | x . . . . . . . |           | x . . . |
//   lane 1   | x . . . . . . . |   A       | x . . . |   out
//   lane 2   | x . . . . . . . |           | x . . . |
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void uncoalesced_kernel(const GemmParameters& parameters) {
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int m = blockIdx.x / tiles_n * Config::tile_m + threadIdx.x % Config::tile_m;
  const int n = blockIdx.x % tiles_n * Config::tile_n + threadIdx.x / Config::tile_m;
  if (m >= parameters.m || n >= parameters.n) return;

  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const float* a = static_cast<const float*>(parameters.a.pointer) + m * a_stride;
  const float* b = static_cast<const float*>(parameters.b.pointer) + n;
  float sum = 0.0f;
  for (int k = 0; k < parameters.k; ++k) sum = fmaf(a[k], b[k * b_stride], sum);

  Epilogue<Config>(parameters, 0).at_row(m).store(sum, n);
}

}  // namespace tilewright
