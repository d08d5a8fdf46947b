// Half-precision activations times four-bit weights, which become halves in registers: groups of 64
// along k have a scale and a zero. A word of `weight` has eight weights, k from its lowest bits on;
// weight is (n, k / 8).
#include "warp_mma.cuh"

constexpr int TILE = 64, GROUP = 64;

// Halves 1024 + x of the nibbles 0 and 4, shifted: exponent bits under four bits of mantissa.
__device__ __half2 pair(unsigned low, unsigned high) {
  unsigned both = 0x64006400u | low | high << 16;
  return __hsub2(*reinterpret_cast<__half2*>(&both), __float2half2_rn(1024.f));
}

extern "C" __global__ void gemm_w4a16(__half* c, const __half* a, const unsigned* weight,
                                      const __half* scale, const __half* zero, int m, int n,
                                      int k) {
  __shared__ alignas(1024) __half a_tile[2][TILE * WIDTH];
  __shared__ alignas(16) unsigned w_tile[2][TILE][WIDTH / 8];
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, warp = threadIdx.x / 32,
      lane = threadIdx.x % 32;
  float sums[8][4] = {};
  auto fetch = [&](int step) {
    if (step * WIDTH < k) {
      copy_tile<TILE, 128>(a_tile[step % 2], a, row, step * WIDTH, m, k);
      int y = threadIdx.x / 2, x = threadIdx.x % 2 * 4;
      copy_chunk(&w_tile[step % 2][y][x], weight + (column + y) * (k / 8) + step * WIDTH / 8 + x,
                 true);
    }
    commit();
  };
  fetch(0);
  for (int step = 0; step * WIDTH < k; step++) {
    fetch(step + 1);
    wait_for_copies<1>();
    __syncthreads();
#pragma unroll
    for (int at = 0; at < WIDTH; at += 16) {
      unsigned left[4];
      load_a(left, a_tile[step % 2], 16 * warp, at);  // reported: NO_BARRIER
#pragma unroll
      for (int j = 0; j < 8; j++) {
        int local = 8 * j + lane / 4, place = step * (WIDTH / GROUP) * n + column + local;
        __half2 factor = __half2half2(scale[place]), offset = __half2half2(zero[place]);
        unsigned right[2];
        for (int half = 0; half < 2; half++) {
          unsigned word = w_tile[step % 2][local][at / 8 + half] >> lane % 4 * 8;
          __half2 both = __hmul2(__hsub2(pair(word & 15, word >> 4 & 15), offset), factor);
          right[half] = *reinterpret_cast<unsigned*>(&both);
        }
        mma(sums[j], left, right[0], right[1]);
      }
    }
#ifndef NO_BARRIER
    __syncthreads();
#endif
  }
#pragma unroll
  for (int j = 0; j < 8; j++)
    for (int e = 0; e < 4; e += 2) {
      int y = row + 16 * warp + lane / 4 + e / 2 * 8, x = column + 8 * j + lane % 4 * 2;
      if (y < m)
        *reinterpret_cast<__half2*>(c + y * n + x) = __floats2half2_rn(sums[j][e], sums[j][e + 1]);
    }
}
