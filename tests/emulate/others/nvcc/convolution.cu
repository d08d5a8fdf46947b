// A convolution as a matrix product: cp.async gathers patches of 3 x 3, with zeros at the border;
// channels last.
#include "warp_mma.cuh"

constexpr int CHANNELS = 64, FILTERS = 64, THREADS = 128;

extern "C" __global__ void convolution(float* out, const __half* in, const __half* filters,
                                       int rows, int columns) {
  __shared__ alignas(1024) __half patch[2][64 * WIDTH], weight[2][FILTERS * WIDTH];
  int first = blockIdx.x * 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32,
      pixels = rows * columns;
  auto fetch = [&](int tap) {
    if (tap < 9) {
      for (int i = threadIdx.x; i < 64 * 8; i += THREADS) {
        int pixel = first + i / 8, y = pixel / columns + tap / 3 - 1,
            x = pixel % columns + tap % 3 - 1;
        bool inside = pixel < pixels && y >= 0 && y < rows && x >= 0 && x < columns;
        const __half* from = inside ? in + (y * columns + x) * CHANNELS + i % 8 * 8 : in;
        copy_chunk(patch[tap % 2] + swizzled(i / 8, i % 8), from, inside);
      }
      copy_tile<FILTERS, THREADS>(weight[tap % 2], filters + tap * FILTERS * CHANNELS, 0, 0,
                                  FILTERS, CHANNELS);
    }
    commit();
  };
  float sums[8][4] = {};
  fetch(0);
  for (int tap = 0; tap < 9; tap++) {
    fetch(tap + 1);
    wait_for_copies<1>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < CHANNELS; k += 16) {
      unsigned a[4], b[4];
      load_a(a, patch[tap % 2], 16 * warp, k);  // reported: NO_BARRIER
#pragma unroll
      for (int j = 0; j < 4; j++) {
        load_b(b, weight[tap % 2], 16 * j, k);
        mma(sums[2 * j], a, b[0], b[1]);
        mma(sums[2 * j + 1], a, b[2], b[3]);
      }
    }
#ifndef NO_BARRIER
    __syncthreads();
#endif
  }
  for (int j = 0; j < 8; j++)
    for (int e = 0; e < 4; e++) {
      int pixel = first + 16 * warp + lane / 4 + e / 2 * 8;
      if (pixel < pixels) out[pixel * FILTERS + 8 * j + lane % 4 * 2 + e % 2] = sums[j][e];
    }
}
