// Stream-K: each block takes an equal share of all steps, which may begin and end within tiles. The
// block with a tile's first step finishes it, with the sums that the others leave in a workspace.
#include "tile_gemm.cuh"

extern "C" __global__ void gemm_stream_k(float* c, float* workspace, int* ready, const __half* a,
                                         const __half* b, int m, int n, int k) {
  extern __shared__ __align__(1024) __half ring[];
  Product p{a, b, m, n, k};
  int steps = p.steps(), columns = (p.n + TILE - 1) / TILE, rows = (p.m + TILE - 1) / TILE;
  int total = steps * columns * rows, blocks = gridDim.x;
  int begin = total * blockIdx.x / blocks, end = total * (blockIdx.x + 1) / blocks;
  while (begin < end) {
    int tile = begin / steps, first = begin % steps, last = min(steps, first + end - begin);
    int row = tile / columns * TILE, column = tile % columns * TILE;
    Sums sums;
    multiply(sums, ring, p, row, column, first, last);
    if (first > 0) {  // another block finishes this tile
      sums.each(
          [&](int y, int x, float sum) { workspace[(blockIdx.x * TILE + y) * TILE + x] = sum; });
      __syncthreads();
      if (threadIdx.x == 0) {
#ifndef NO_FENCE
        __threadfence();
#endif
        atomicExch(&ready[blockIdx.x], 1);
      }
    } else {
      int reached = tile * steps + last;
      for (int other = blockIdx.x + 1; reached < (tile + 1) * steps; other++) {
        if (threadIdx.x == 0) {
          while (atomicAdd(&ready[other], 0) == 0) {
          }
          __threadfence();
        }
        __syncthreads();
        sums.each([&](int y, int x, float& sum) {
          sum += workspace[(other * TILE + y) * TILE + x];  // reported: NO_FENCE
        });
        reached = total * (other + 1) / blocks;
      }
      sums.each([&](int y, int x, float sum) {
        if (row + y < p.m && column + x < p.n) c[(row + y) * p.n + column + x] = sum;
      });
    }
    begin += last - first;
  }
}
