// Pairs of a float and its place, sorted in descending order: the largest elements of each row.
#include <cub/block/block_radix_sort.cuh>

constexpr int THREADS = 64, ITEMS = 4;
using Sort = cub::BlockRadixSort<float, THREADS, ITEMS, int>;

extern "C" __global__ void block_radix_sort(float* values, int* places, const float* in,
                                            int columns, int most) {
  __shared__ Sort::TempStorage shared;
  float keys[ITEMS];
  int items[ITEMS];
  for (int i = 0; i < ITEMS; i++) {
    items[i] = threadIdx.x * ITEMS + i;
    keys[i] = items[i] < columns ? in[blockIdx.x * columns + items[i]] : -INFINITY;
  }
  Sort(shared).SortDescendingBlockedToStriped(keys, items);
  for (int i = 0; i < ITEMS; i++) {
    int rank = threadIdx.x + i * THREADS;
    if (rank < most)
      values[blockIdx.x * most + rank] = keys[i], places[blockIdx.x * most + rank] = items[i];
  }
}
