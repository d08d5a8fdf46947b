// Rung: a CTA brings tiles of A and B into SMEM once, for all of its threads.
//
// 32x32 threads make a 32x32 tile of out. Along k they load a 32x32 tile of A and one of B, and a
// thread loads one element of each. Then each thread multiplies a row of A's tile by a column of
// B's. One thread now reads from GMEM what 32 threads read before.
//
//                        | B tile |  k
//                        |   v    |
//            k           |   v    |
//     | A tile > > > |   |  out   |  m
#pragma once
#include "epilogue/epilogue.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void smem_tiles_kernel(const GemmParameters& parameters) {
  constexpr int size = Config::tile_k;
  static_assert(Config::tile_m == size && Config::tile_n == size, "each thread loads one of each");
  __shared__ float a_tile[size][size];  // (m, k)
  __shared__ float b_tile[size][size];  // (k, n)

  const int tiles_n = ceil_div(parameters.n, size);
  const int row = threadIdx.x / size, column = threadIdx.x % size;
  const int m = blockIdx.x / tiles_n * size + row, n = blockIdx.x % tiles_n * size + column;

  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const float* a = static_cast<const float*>(parameters.a.pointer) + m * a_stride;
  const float* b = static_cast<const float*>(parameters.b.pointer) + n;
  float sum = 0.0f;
  for (int first_k = 0; first_k < parameters.k; first_k += size) {
    const int a_k = first_k + column, b_k = first_k + row;
    a_tile[row][column] = m < parameters.m && a_k < parameters.k ? a[a_k] : 0.0f;
    b_tile[row][column] = n < parameters.n && b_k < parameters.k ? b[b_k * b_stride] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < size; ++k) sum = fmaf(a_tile[row][k], b_tile[k][column], sum);
    __syncthreads();  // all have read the tiles before they are overwritten
  }

  if (m >= parameters.m || n >= parameters.n) return;
  Epilogue<Config>(parameters, 0).at_row(m).store(sum, n);
}

}  // namespace tilewright
