// A stable radix sort of one block, four bits at a time: each warp ranks its keys with match, then
// the block scans.
constexpr int THREADS = 128, WARPS = THREADS / 32, ITEMS = 4, COUNT = THREADS * ITEMS, DIGITS = 16;

extern "C" __global__ void sort_radix(unsigned short* keys) {
  __shared__ unsigned short key[COUNT];
  __shared__ int count[DIGITS][WARPS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned mine[ITEMS];
  for (int i = 0; i < ITEMS; i++)
    mine[i] = keys[blockIdx.x * COUNT + warp * 32 * ITEMS + 32 * i + lane];

  for (int shift = 0; shift < 16; shift += 4) {
    for (int i = threadIdx.x; i < DIGITS * WARPS; i += THREADS) count[i / WARPS][i % WARPS] = 0;
    __syncthreads();
    int rank[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
      int digit = mine[i] >> shift & 15;
      unsigned same = __match_any_sync(~0u, digit), below = same & ((1u << lane) - 1);
      int before = count[digit][warp];  // reported: NO_SYNCWARP
      rank[i] = before + __popc(below);
      __syncwarp();
      if (below == 0) count[digit][warp] = before + __popc(same);
#ifndef NO_SYNCWARP
      __syncwarp();
#endif
    }
    __syncthreads();
    if (warp == 0) {  // an exclusive scan of 64 counts, two for each lane
      int* flat = &count[0][0];
      int low = flat[2 * lane], high = flat[2 * lane + 1], sum = low + high;
      for (int step = 1; step < 32; step *= 2) {
        int before = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += before;
      }
      flat[2 * lane] = sum - low - high, flat[2 * lane + 1] = sum - high;
    }
    __syncthreads();
    for (int i = 0; i < ITEMS; i++) key[count[mine[i] >> shift & 15][warp] + rank[i]] = mine[i];
    __syncthreads();
    for (int i = 0; i < ITEMS; i++) mine[i] = key[warp * 32 * ITEMS + 32 * i + lane];
    __syncthreads();
  }
  for (int i = 0; i < ITEMS; i++)
    keys[blockIdx.x * COUNT + warp * 32 * ITEMS + 32 * i + lane] = mine[i];
}
