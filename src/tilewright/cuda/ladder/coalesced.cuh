// Rung: one thread for each element of out, and the threads of a warp side by side.
//
// A warp's 32 lanes take 32 neighbouring columns of one row. They all want the same element of A,
// and neighbours of B and out: 128 bytes in a row, four sectors of which every byte is used.
//
//      k ->                        n ->                        n ->
//     | x . . . . |   A           | 0 1 2 ... 31 | . |   B     | 0 1 2 ... 31 | . |   out
//     | . . . . . |               | . . . .      | . |         | . . . .      | . |
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void coalesced_kernel(const GemmParameters& parameters) {
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int m = blockIdx.x / tiles_n * Config::tile_m + threadIdx.x / Config::tile_n;
  const int n = blockIdx.x % tiles_n * Config::tile_n + threadIdx.x % Config::tile_n;
  if (m >= parameters.m || n >= parameters.n) return;

  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const float* a = static_cast<const float*>(parameters.a.pointer) + m * a_stride;
  const float* b = static_cast<const float*>(parameters.b.pointer) + n;
  float sum = 0.0f;
  for (int k = 0; k < parameters.k; ++k) sum = fmaf(a[k], b[k * b_stride], sum);

  Epilogue<Config>(parameters, 0).at_row(m).store(sum, n);
}

}  // namespace tilewright
