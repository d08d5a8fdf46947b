// C = A B^T with mma.sync, fed by cp.async through a ring of three stages.
#include "tile_gemm.cuh"

extern "C" __global__ void gemm_mma(float* c, const __half* a, const __half* b, int m, int n,
                                    int k) {
  extern __shared__ __align__(1024) __half ring[];
  Product p{a, b, m, n, k};
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  Sums sums;
  multiply(sums, ring, p, row, column, 0, p.steps());  // reported: WAITS_FOR_ONE_LESS
  sums.each([&](int y, int x, float sum) {
    if (row + y < p.m && column + x < p.n) c[(row + y) * p.n + column + x] = sum;
  });
}
