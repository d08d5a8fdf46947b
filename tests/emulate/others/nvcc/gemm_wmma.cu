// C = A B with nvcuda::wmma: bf16 and padded rows; four warps, each 32 x 32 of a tile of 64 x 64.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
constexpr int TILE = 64, STEP = 32, PAD = 8;

extern "C" __global__ void gemm_wmma(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b,
                                     int n, int k) {
  __shared__ alignas(32) __nv_bfloat16 a_tile[TILE][STEP + PAD], b_tile[STEP][TILE + PAD];
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, warp = threadIdx.x / 32;
  int y = warp / 2 * 32, x = warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) wmma::fill_fragment(sums[i][j], 0.f);
  for (int from = 0; from < k; from += STEP) {
    for (int i = threadIdx.x; i < TILE * STEP / 8; i += 128) {
      *reinterpret_cast<uint4*>(&a_tile[i / 4][i % 4 * 8]) =
          *reinterpret_cast<const uint4*>(a + (row + i / 4) * k + from + i % 4 * 8);
      *reinterpret_cast<uint4*>(&b_tile[i / 8][i % 8 * 8]) =
          *reinterpret_cast<const uint4*>(b + (from + i / 8) * n + column + i % 8 * 8);
    }
    __syncthreads();
    for (int step = 0; step < STEP; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> right[2];
      for (int i = 0; i < 2; i++) {
        wmma::load_matrix_sync(left[i], &a_tile[y + 16 * i][step], STEP + PAD);
        wmma::load_matrix_sync(right[i], &b_tile[step][x + 16 * i], TILE + PAD);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      wmma::store_matrix_sync(c + (row + y + 16 * i) * n + column + x + 16 * j, sums[i][j], n,
                              wmma::mem_row_major);
}
