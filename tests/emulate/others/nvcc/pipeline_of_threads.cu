// The primitives of cuda_pipeline.h: groups of cp.async, and a barrier since threads read what
// others copied.
#include <cuda_pipeline.h>

constexpr int STAGES = 4, TILE = 256;

extern "C" __global__ void pipeline_of_threads(int* out, const int* in, int tiles) {
  __shared__ alignas(16) int ring[STAGES][TILE];
  auto fetch = [&](int tile) {
    if (tile < tiles)
      __pipeline_memcpy_async(&ring[tile % STAGES][4 * threadIdx.x],
                              in + tile * TILE + 4 * threadIdx.x, 16);
    __pipeline_commit();
  };
  int sum = 0;
  for (int tile = 0; tile < STAGES - 1; tile++) fetch(tile);
  for (int tile = 0; tile < tiles; tile++) {
#ifdef ONE_LATE
    __pipeline_wait_prior(STAGES - 1);
#else
    __pipeline_wait_prior(STAGES - 2);
#endif
#ifndef NO_BARRIER
    __syncthreads();
#endif
    for (int i = 0; i < 4; i++)
      sum +=
          (tile + 1) *
          ring[tile % STAGES][TILE - 1 - threadIdx.x - 64 * i];  // reported: ONE_LATE, NO_BARRIER
    fetch(tile + STAGES - 1);
  }
  out[threadIdx.x] = sum;
}
