// C = A B in fp32: tiles of 64 x 64, four by four sums a thread, and shared memory filled ahead
// from registers.
constexpr int TILE = 64, STEP = 8;

extern "C" __global__ void __launch_bounds__(256)
    gemm_simt(float* c, const float* __restrict__ a, const float* __restrict__ b, int m, int n,
              int k) {
  __shared__ float a_tile[2][STEP][TILE], b_tile[2][STEP][TILE];
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, y = threadIdx.x / 16,
      x = threadIdx.x % 16;
  float sums[4][4] = {}, next_a[2], next_b[2];
  auto load = [&](int from) {
    for (int i = 0; i < 2; i++) {
      int at = threadIdx.x + 256 * i, a_row = row + at / STEP, a_column = from + at % STEP;
      int b_row = from + at / TILE, b_column = column + at % TILE;
      next_a[i] = a_row < m && a_column < k ? a[a_row * k + a_column] : 0;
      next_b[i] = b_row < k && b_column < n ? b[b_row * n + b_column] : 0;
    }
  };
  auto store = [&](int slot) {
    for (int i = 0; i < 2; i++) {
      int at = threadIdx.x + 256 * i;
      a_tile[slot][at % STEP][at / STEP] = next_a[i];
      b_tile[slot][at / TILE][at % TILE] = next_b[i];
    }
  };
  load(0);
  store(0);
  __syncthreads();
  for (int from = 0; from < k; from += STEP) {
    int slot = from / STEP % 2;
    if (from + STEP < k) load(from + STEP);
    for (int step = 0; step < STEP; step++) {
      float4 left = *reinterpret_cast<float4*>(&a_tile[slot][step][4 * y]);
      float4 right =
          *reinterpret_cast<float4*>(&b_tile[slot][step][4 * x]);  // reported: ONE_BUFFER
      float as[4] = {left.x, left.y, left.z, left.w}, bs[4] = {right.x, right.y, right.z, right.w};
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sums[i][j] += as[i] * bs[j];
    }
#ifdef ONE_BUFFER
    if (from + STEP < k) store(slot);
#else
    if (from + STEP < k) store(slot ^ 1);
#endif
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      if (row + 4 * y + i < m && column + 4 * x + j < n)
        c[(row + 4 * y + i) * n + column + 4 * x + j] = sums[i][j];
}
