// The rungs with large tiles share this: the part of A and B that a CTA works on, and the part that
// each thread copies, four neighbors at a time. Tiles are whole, and rows start on 16 bytes.
#pragma once
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Four neighbors in one access; the first starts on 16 bytes.
__device__ __forceinline__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

// Calls visit(pass, row, column) for each group of four neighbors that this thread copies of
// (rows, columns) elements; neighboring threads take neighboring groups.
template <int rows, int columns, int threads, class Visit>
__device__ __forceinline__ void for_each_copy(Visit visit) {
  constexpr int threads_per_row = columns / 4, rows_per_pass = threads / threads_per_row;
  static_assert(rows % rows_per_pass == 0);
#pragma unroll
  for (int pass = 0; pass < rows / rows_per_pass; ++pass) {
    visit(pass, threadIdx.x / threads_per_row + pass * rows_per_pass,
          threadIdx.x % threads_per_row * 4);
  }
}

// The CTA's tile of out, and the rows of A and columns of B that it needs.
template <class Config>
struct CtaTile {
  const int m, n;  // its first row and column of out
  const int64_t a_stride, b_stride;
  const float *a, *b;

  __device__ __forceinline__ explicit CtaTile(const GemmParameters& parameters)
      : m(blockIdx.x / (parameters.n / Config::tile_n) * Config::tile_m),
        n(blockIdx.x % (parameters.n / Config::tile_n) * Config::tile_n),
        a_stride(parameters.a.row_stride),
        b_stride(parameters.b.row_stride),
        a(static_cast<const float*>(parameters.a.pointer) + m * a_stride),
        b(static_cast<const float*>(parameters.b.pointer) + n) {}

  // Calls visit(pass, row, column, source) for this thread's part of A's (tile_m, tile_k) at k.
  template <class Visit>
  __device__ __forceinline__ void for_each_of_a(int k, Visit visit) const {
    for_each_copy<Config::tile_m, Config::tile_k, Config::threads>(
        [&](int pass, int row, int column) {
          visit(pass, row, column, a + row * a_stride + k + column);
        });
  }

  // The same of B's tile (tile_k, tile_n).
  template <class Visit>
  __device__ __forceinline__ void for_each_of_b(int k, Visit visit) const {
    for_each_copy<Config::tile_k, Config::tile_n, Config::threads>(
        [&](int pass, int row, int column) {
          visit(pass, row, column, b + (k + row) * b_stride + column);
        });
  }
};

// A thread's part of a tile of A and one of B in registers, on the way from GMEM to SMEM.
template <class Config>
struct FetchedTiles {
  float4 a[Config::tile_m * Config::tile_k / (4 * Config::threads)];
  float4 b[Config::tile_k * Config::tile_n / (4 * Config::threads)];

  __device__ __forceinline__ void fetch(const CtaTile<Config>& cta, int k) {
    cta.for_each_of_a(k, [&](int pass, int, int, const float* from) { a[pass] = load4(from); });
    cta.for_each_of_b(k, [&](int pass, int, int, const float* from) { b[pass] = load4(from); });
  }
};

}  // namespace tilewright
