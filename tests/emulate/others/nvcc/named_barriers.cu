// Two warps load tiles and four warps use them; named barriers say which of two buffers is full or
// empty.
constexpr int PRODUCERS = 64, CONSUMERS = 128, ALL = PRODUCERS + CONSUMERS, TILE = 128;

__device__ void arrive(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(ALL) : "memory");
}
__device__ void wait(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(ALL) : "memory");
}

extern "C" __global__ void named_barriers(int* out, const int* in, int tiles) {
  __shared__ int buffer[2][TILE];
  const int FULL = 1, EMPTY = 3;
  if (threadIdx.x < PRODUCERS) {
    for (int tile = 0; tile < tiles; tile++) {
      int slot = tile % 2;
      if (tile >= 2) wait(EMPTY + slot);
      for (int i = threadIdx.x; i < TILE; i += PRODUCERS) buffer[slot][i] = in[tile * TILE + i];
      arrive(FULL + slot);
    }
  } else {
    int thread = threadIdx.x - PRODUCERS, sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
      int slot = tile % 2;
      wait(FULL + slot);
#ifdef FREED_EARLY
      if (tile + 2 < tiles) arrive(EMPTY + slot);
      sum += (tile + 1) * buffer[slot][TILE - 1 - thread];  // reported: FREED_EARLY
#else
      sum += (tile + 1) * buffer[slot][TILE - 1 - thread];
      if (tile + 2 < tiles) arrive(EMPTY + slot);
#endif
    }
    out[thread] = sum;
  }
}
