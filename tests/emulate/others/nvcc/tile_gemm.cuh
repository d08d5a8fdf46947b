// A block of 128 threads multiplies a tile of 64 x 64: A is (m, k), B is (n, k), both row-major.
#pragma once
#include "warp_mma.cuh"

constexpr int TILE = 64, STAGES = 3, THREADS = 128;

struct Product {
  const __half *a, *b;
  int m, n, k;

  __device__ int steps() const { return (k + WIDTH - 1) / WIDTH; }
};

struct Sums {
  float of[2][4][4] = {};

  // Calls f(row, column, element) for each sum of this thread; row and column are those of the
  // tile.
  template <typename F>
  __device__ void each(F f) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          f(warp / 2 * 32 + i * 16 + lane / 4 + e / 2 * 8,
            warp % 2 * 32 + j * 8 + lane % 4 * 2 + e % 2, of[i][j][e]);
  }
};

// Adds the products of steps first to last - 1 of k; ring has 2 * STAGES tiles.
__device__ inline void multiply(Sums& sums, __half* ring, const Product& p, int row, int column,
                                int first, int last) {
  constexpr int SIZE = TILE * WIDTH;
  int warp = threadIdx.x / 32;
  auto fetch = [&](int step) {
    __half* slot = ring + step % STAGES * 2 * SIZE;
    if (step < last) {
      copy_tile<TILE, THREADS>(slot, p.a, row, step * WIDTH, p.m, p.k);
      copy_tile<TILE, THREADS>(slot + SIZE, p.b, column, step * WIDTH, p.n, p.k);
    }
    commit();
  };
  for (int step = first; step < first + STAGES - 1; step++) fetch(step);
  for (int step = first; step < last; step++) {
#ifdef WAITS_FOR_ONE_LESS
    wait_for_copies<STAGES - 1>();
#else
    wait_for_copies<STAGES - 2>();
#endif
    __syncthreads();
    const __half* slot = ring + step % STAGES * 2 * SIZE;
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
      unsigned a[2][4], b[2][4];
      for (int i = 0; i < 2; i++) load_a(a[i], slot, warp / 2 * 32 + i * 16, k);
      for (int j = 0; j < 2; j++) load_b(b[j], slot + SIZE, warp % 2 * 32 + j * 16, k);
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
          mma(sums.of[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    fetch(step + STAGES - 1);
  }
  wait_for_copies<0>();
  __syncthreads();
}
