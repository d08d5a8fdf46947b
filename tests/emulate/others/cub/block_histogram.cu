// Histograms by sorting and by atomics, which must agree.
#include <cub/block/block_histogram.cuh>

constexpr int THREADS = 64, ITEMS = 4, BINS = 32;
using BySorting = cub::BlockHistogram<unsigned char, THREADS, ITEMS, BINS, cub::BLOCK_HISTO_SORT>;
using ByAtomics = cub::BlockHistogram<unsigned char, THREADS, ITEMS, BINS, cub::BLOCK_HISTO_ATOMIC>;

extern "C" __global__ void block_histogram(unsigned* out, const unsigned char* in) {
  __shared__ union {
    BySorting::TempStorage sorting;
    ByAtomics::TempStorage atomics;
  } shared;
  __shared__ unsigned sorted[BINS], added[BINS];
  unsigned char items[ITEMS], again[ITEMS];
  for (int i = 0; i < ITEMS; i++)
    items[i] = again[i] = in[(blockIdx.x * THREADS + threadIdx.x) * ITEMS + i];
  BySorting(shared.sorting).Histogram(items, sorted);
  __syncthreads();
#ifdef NOT_CLEARED
  // reported: NOT_CLEARED
  ByAtomics(shared.atomics).Composite(again, added);
#else
  ByAtomics(shared.atomics).Histogram(again, added);
#endif
  __syncthreads();
  if (threadIdx.x < BINS) {
    out[blockIdx.x * 2 * BINS + threadIdx.x] = sorted[threadIdx.x];
    out[blockIdx.x * 2 * BINS + BINS + threadIdx.x] = added[threadIdx.x];
  }
}
