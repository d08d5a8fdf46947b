// The gradients of attention: a block has 64 keys and goes through all queries; every product is
// mma.sync.
#include "warp_mma.cuh"

constexpr int TILE = 64, THREADS = 128;

__device__ unsigned packed(float low, float high) {
  __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<unsigned*>(&both);
}

// Products (16 rows of a, 64 rows of b), of tiles with 64 columns.
__device__ void rows_by_rows(float (&sums)[8][4], const __half* a, int row, const __half* b) {
#pragma unroll
  for (int d = 0; d < WIDTH; d += 16) {
    unsigned left[4], right[4];
    load_a(left, a, row, d);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      load_b(right, b, 16 * j, d);
      mma(sums[2 * j], left, right[0], right[1]);
      mma(sums[2 * j + 1], left, right[2], right[3]);
    }
  }
}

// Adds products of weights (16, 64) in registers and the tile (64, 64).
__device__ void weights_by_tile(float (&sums)[8][4], const float (&w)[8][4], const __half* tile) {
#pragma unroll
  for (int t = 0; t < 4; t++) {
    unsigned b[4];
    unsigned a[4] = {packed(w[2 * t][0], w[2 * t][1]), packed(w[2 * t][2], w[2 * t][3]),
                     packed(w[2 * t + 1][0], w[2 * t + 1][1]),
                     packed(w[2 * t + 1][2], w[2 * t + 1][3])};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      load_b_transposed(b, tile, 16 * j, 16 * t);
      mma(sums[2 * j], a, b[0], b[1]);
      mma(sums[2 * j + 1], a, b[2], b[3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_backward(float* dq, __half* dk, __half* dv, const __half* q, const __half* k,
                       const __half* v, const __half* dout, const float* logarithms,
                       const float* delta, int length, float scale) {
  __shared__ alignas(1024) __half q_tile[TILE * WIDTH], k_tile[TILE * WIDTH], v_tile[TILE * WIDTH];
  __shared__ alignas(1024) __half dout_tile[TILE * WIDTH], ds_tile[TILE * WIDTH];
  int first = blockIdx.x * TILE, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  copy_tile<TILE, THREADS>(k_tile, k, first, 0, length, WIDTH);
  copy_tile<TILE, THREADS>(v_tile, v, first, 0, length, WIDTH);
  float dk_sums[8][4] = {}, dv_sums[8][4] = {};
  for (int query = 0; query < length; query += TILE) {
    copy_tile<TILE, THREADS>(q_tile, q, query, 0, length, WIDTH);
    copy_tile<TILE, THREADS>(dout_tile, dout, query, 0, length, WIDTH);
    commit();
    wait_for_copies<0>();
    __syncthreads();
    float p[8][4] = {}, dp[8][4] = {};  // keys in rows, queries in columns
    rows_by_rows(p, k_tile, 16 * warp, q_tile);
    rows_by_rows(dp, v_tile, 16 * warp, dout_tile);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int column = query + 8 * j + lane % 4 * 2 + e % 2;
        p[j][e] = column < length ? __expf(p[j][e] * scale - logarithms[column]) : 0;
        dp[j][e] = column < length ? p[j][e] * (dp[j][e] - delta[column]) * scale : 0;
      }
    weights_by_tile(dv_sums, p, dout_tile);
    weights_by_tile(dk_sums, dp, q_tile);
#pragma unroll
    for (int j = 0; j < 8; j++)
      for (int half = 0; half < 2; half++)
        *reinterpret_cast<unsigned*>(ds_tile + swizzled(16 * warp + lane / 4 + 8 * half, j) +
                                     lane % 4 * 2) = packed(dp[j][2 * half], dp[j][2 * half + 1]);
#ifndef NO_BARRIER
    __syncthreads();
#endif
    float dq_sums[8][4] = {};
#pragma unroll
    for (int key = 0; key < TILE; key += 16) {
      unsigned a[4], b[4];
      load_a_transposed(a, ds_tile, 16 * warp, key);  // reported: NO_BARRIER
#pragma unroll
      for (int j = 0; j < 4; j++) {
        load_b_transposed(b, k_tile, 16 * j, key);
        mma(dq_sums[2 * j], a, b[0], b[1]);
        mma(dq_sums[2 * j + 1], a, b[2], b[3]);
      }
    }
    for (int j = 0; j < 8; j++)
      for (int e = 0; e < 4; e++) {
        int row = query + 16 * warp + lane / 4 + e / 2 * 8;
        if (row < length) atomicAdd(&dq[row * WIDTH + 8 * j + lane % 4 * 2 + e % 2], dq_sums[j][e]);
      }
    __syncthreads();
  }
  for (int j = 0; j < 8; j++)
    for (int half = 0; half < 2; half++) {
      int key = first + 16 * warp + lane / 4 + 8 * half, place = key * WIDTH + 8 * j + lane % 4 * 2;
      if (key >= length) continue;
      *reinterpret_cast<unsigned*>(dk + place) =
          packed(dk_sums[j][2 * half], dk_sums[j][2 * half + 1]);
      *reinterpret_cast<unsigned*>(dv + place) =
          packed(dv_sums[j][2 * half], dv_sums[j][2 * half + 1]);
    }
}
