// A block of 128 threads multiplies one-byte numbers, rows of 64 of them a step; scales of rows and
// columns.
#pragma once
#include "warp_mma.cuh"

constexpr int TILE = 64, STEP = 2 * WIDTH;  // bytes of a step of k

// Multiplication multiplies fragments of 32 bytes of k; its Sum is int or float.
template <typename Multiplication, typename Sum>
__device__ void byte_gemm(float* c, const char* a, const char* b, const float* a_scale,
                          const float* b_scale, int m, int n, int k) {
  __shared__ alignas(1024) __half a_tile[TILE * WIDTH], b_tile[TILE * WIDTH];
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, warp = threadIdx.x / 32,
      lane = threadIdx.x % 32;
  Sum sums[8][4] = {};
  for (int from = 0; from < k; from += STEP) {
    copy_tile<TILE, 128>(a_tile, reinterpret_cast<const __half*>(a), row, from / 2, m, k / 2);
    copy_tile<TILE, 128>(b_tile, reinterpret_cast<const __half*>(b), column, from / 2, n, k / 2);
    commit();
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < WIDTH; step += 16) {
      unsigned left[4], right[4];
      load_a(left, a_tile, 16 * warp, step);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        load_b(right, b_tile, 16 * j, step);
        Multiplication::add(sums[2 * j], left, right[0], right[1]);
        Multiplication::add(sums[2 * j + 1], left, right[2], right[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 8; j++)
    for (int e = 0; e < 4; e++) {
      int y = row + 16 * warp + lane / 4 + e / 2 * 8, x = column + 8 * j + lane % 4 * 2 + e % 2;
      if (y < m && x < n) c[y * n + x] = a_scale[y] * b_scale[x] * static_cast<float>(sums[j][e]);
    }
}
