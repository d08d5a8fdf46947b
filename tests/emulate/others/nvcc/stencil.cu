// Three steps of a stencil of five points, in shared memory with a halo; the grid's edge repeats
// its values.
constexpr int TILE = 16, STEPS = 3, SIDE = TILE + 2 * STEPS;

extern "C" __global__ void stencil(int* out, const int* in, int rows, int columns) {
  __shared__ int plane[2][SIDE][SIDE];
  int top = blockIdx.y * TILE - STEPS, left = blockIdx.x * TILE - STEPS;
  for (int i = threadIdx.x; i < SIDE * SIDE; i += blockDim.x) {
    int y = min(max(top + i / SIDE, 0), rows - 1), x = min(max(left + i % SIDE, 0), columns - 1);
    plane[0][i / SIDE][i % SIDE] = in[y * columns + x];
  }
  for (int step = 0; step < STEPS; step++) {
    __syncthreads();
    auto from = plane[step % 2], to = plane[(step + 1) % 2];
    for (int i = threadIdx.x; i < SIDE * SIDE; i += blockDim.x) {
      int y = i / SIDE, x = i % SIDE, margin = step + 1;
#ifdef HALO_TOO_SMALL
      margin = step;
#endif
      if (y < margin || y >= SIDE - margin || x < margin || x >= SIDE - margin) continue;
      int row = top + y, column = left + x;
      if (row < 0 || row >= rows || column < 0 || column >= columns) continue;
      int up = row > 0 ? from[y - 1][x] : from[y][x];  // reported: HALO_TOO_SMALL
      int down = row < rows - 1 ? from[y + 1][x] : from[y][x];
      int before = column > 0 ? from[y][x - 1] : from[y][x];
      int after = column < columns - 1 ? from[y][x + 1] : from[y][x];
      to[y][x] = 4 * from[y][x] + up + down + before + after;
    }
  }
  __syncthreads();
  int y = threadIdx.x / TILE, x = threadIdx.x % TILE, row = top + STEPS + y,
      column = left + STEPS + x;
  if (row < rows && column < columns)
    out[row * columns + column] = plane[STEPS % 2][STEPS + y][STEPS + x];
}
