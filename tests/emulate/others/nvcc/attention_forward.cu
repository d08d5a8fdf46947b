// Causal attention with an online softmax: 64 queries a block, 16 a warp; keys and values come in
// pairs of tiles.
#include "warp_mma.cuh"

constexpr int TILE = 64, THREADS = 128;

__device__ unsigned packed(float low, float high) {
  __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<unsigned*>(&both);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_forward(__half* out, float* logarithms, const __half* q, const __half* k,
                      const __half* v, int length, float scale) {
  __shared__ alignas(1024) __half q_tile[TILE * WIDTH], k_tile[2][TILE * WIDTH],
      v_tile[2][TILE * WIDTH];
  int head = blockIdx.y, first = blockIdx.x * TILE, warp = threadIdx.x / 32,
      lane = threadIdx.x % 32;
  q += head * length * WIDTH, k += head * length * WIDTH, v += head * length * WIDTH;
  auto fetch = [&](int tile) {  // two groups: keys, then values
    copy_tile<TILE, THREADS>(k_tile[tile % 2], k, tile * TILE, 0, length, WIDTH);
    commit();
    copy_tile<TILE, THREADS>(v_tile[tile % 2], v, tile * TILE, 0, length, WIDTH);
    commit();
  };
  copy_tile<TILE, THREADS>(q_tile, q, first, 0, length, WIDTH);
  fetch(0);

  float sums[8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int tile = 0; tile <= blockIdx.x; tile++) {
    wait_for_copies<1>();
    __syncthreads();
    float score[8][4] = {};
#pragma unroll
    for (int d = 0; d < WIDTH; d += 16) {
      unsigned a[4], b[4];
      load_a(a, q_tile, 16 * warp, d);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        load_b(b, k_tile[tile % 2], 16 * j, d);
        mma(score[2 * j], a, b[0], b[1]);
        mma(score[2 * j + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {  // rows lane / 4 and 8 below
      int query = first + 16 * warp + lane / 4 + 8 * half;
      float before = most[half];
      for (int j = 0; j < 8; j++)
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          int key = tile * TILE + 8 * j + lane % 4 * 2 + e % 2;
          score[j][e] = key <= query ? score[j][e] * scale : -INFINITY;
          most[half] = fmaxf(most[half], score[j][e]);
        }
      for (int lanes = 1; lanes < 4; lanes *= 2)
        most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], lanes));
      float factor = __expf(before - most[half]), sum = 0;
      for (int j = 0; j < 8; j++)
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          sum += score[j][e] = __expf(score[j][e] - most[half]);
          sums[j][e] *= factor;
        }
      for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      total[half] = total[half] * factor + sum;
    }
#ifndef VALUES_TOO_EARLY
    wait_for_copies<0>();
#endif
    __syncthreads();
    if (tile < blockIdx.x) fetch(tile + 1);
#pragma unroll
    for (int t = 0; t < 4; t++) {
      unsigned b[4];
      unsigned a[4] = {packed(score[2 * t][0], score[2 * t][1]),
                       packed(score[2 * t][2], score[2 * t][3]),
                       packed(score[2 * t + 1][0], score[2 * t + 1][1]),
                       packed(score[2 * t + 1][2], score[2 * t + 1][3])};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        // reported: VALUES_TOO_EARLY
        load_b_transposed(b, v_tile[tile % 2], 16 * j, 16 * t);
        mma(sums[2 * j], a, b[0], b[1]);
        mma(sums[2 * j + 1], a, b[2], b[3]);
      }
    }
  }
  wait_for_copies<0>();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int query = first + 16 * warp + lane / 4 + 8 * half;
    if (query >= length) continue;
    if (lane % 4 == 0) logarithms[head * length + query] = most[half] + __logf(total[half]);
    for (int j = 0; j < 8; j++)
      *reinterpret_cast<__half2*>(out + (head * length + query) * WIDTH + 8 * j + lane % 4 * 2) =
          __floats2half2_rn(sums[j][2 * half] / total[half], sums[j][2 * half + 1] / total[half]);
  }
}
