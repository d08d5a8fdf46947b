// Split k: the blocks of a tile add their sums one after another; a semaphore says whose turn it
// is.
#include "tile_gemm.cuh"

extern "C" __global__ void gemm_split_k(float* c, int* semaphores, const __half* a, const __half* b,
                                        int m, int n, int k) {
  extern __shared__ __align__(1024) __half ring[];
  Product p{a, b, m, n, k};
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, slice = blockIdx.z, slices = gridDim.z;
  int* semaphore = semaphores + blockIdx.y * gridDim.x + blockIdx.x;
  Sums sums;
  multiply(sums, ring, p, row, column, p.steps() * slice / slices,
           p.steps() * (slice + 1) / slices);
  if (threadIdx.x == 0) {
    int turn;
    do asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(turn) : "l"(semaphore) : "memory");
    while (turn != slice);
  }
  __syncthreads();
  sums.each([&](int y, int x, float sum) {
    if (row + y >= p.m || column + x >= p.n) return;
    float* place = c + (row + y) * p.n + column + x;
    *place = slice ? *place + sum : sum;  // reported: NO_RELEASE, NO_BARRIER
  });
#ifndef NO_BARRIER
  __syncthreads();
#endif
  int next = slice + 1 < slices ? slice + 1 : 0;
#ifdef NO_RELEASE
  if (threadIdx.x == 0)
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(semaphore), "r"(next) : "memory");
#else
  if (threadIdx.x == 0)
    asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(semaphore), "r"(next) : "memory");
#endif
}
