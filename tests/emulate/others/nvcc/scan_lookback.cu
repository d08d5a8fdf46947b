// An inclusive scan in one pass: each tile waits for what the tiles before it have published
// (decoupled look-back).
constexpr int THREADS = 128, ITEMS = 4, TILE = THREADS * ITEMS;
enum { NOTHING, PARTIAL, COMPLETE };

struct Published {
  int flag[16], partial[16], complete[16];
};

__device__ int scan_block(int value, int* sums) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int step = 1; step < 32; step *= 2) {
    int before = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += before;
  }
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  for (int other = 0; other < warp; other++) value += sums[other];
  return value;
}

extern "C" __global__ void scan_lookback(int* out, const int* in, int count, Published* published,
                                         int* next_tile) {
  __shared__ int sums[THREADS / 32], tile_index, before_tile;
  if (threadIdx.x == 0) tile_index = atomicAdd(next_tile, 1);
  __syncthreads();
  int tile = tile_index, first = tile * TILE + threadIdx.x * ITEMS, items[ITEMS], sum = 0;
  for (int i = 0; i < ITEMS; i++) {
    sum += first + i < count ? in[first + i] : 0;
    items[i] = sum;
  }
  int inclusive = scan_block(sum, sums);

  if (threadIdx.x == THREADS - 1) {
    volatile Published* shared = published;
    shared->partial[tile] = inclusive;
    __threadfence();
    shared->flag[tile] = PARTIAL;
    int before = 0;
    for (int other = tile - 1; other >= 0; other--) {
      int flag;
      do flag = shared->flag[other];
      while (flag == NOTHING);
#ifndef NO_FENCE
      __threadfence();
#endif
      if (flag == COMPLETE) {
        before += published->complete[other];  // reported: NO_FENCE, PUBLISHED_TOO_EARLY
        break;
      }
      before += published->partial[other];  // reported: NO_FENCE
    }
#ifdef PUBLISHED_TOO_EARLY
    shared->flag[tile] = COMPLETE;                // reported: PUBLISHED_TOO_EARLY
    shared->complete[tile] = before + inclusive;  // reported: PUBLISHED_TOO_EARLY
    __threadfence();
#else
    shared->complete[tile] = before + inclusive;
    __threadfence();
    shared->flag[tile] = COMPLETE;
#endif
    before_tile = before;
  }
  __syncthreads();
  int offset = before_tile + inclusive - sum;
  for (int i = 0; i < ITEMS; i++)
    if (first + i < count) out[first + i] = offset + items[i];
}
