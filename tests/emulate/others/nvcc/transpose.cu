// A transpose through a padded tile of shared memory; the matrix need not be whole tiles.
constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[TILE][TILE + 1];
  int column = TILE * blockIdx.x + threadIdx.x;
  for (int row = threadIdx.y; row < TILE; row += ROWS) {
    int from = TILE * blockIdx.y + row;
    if (from < rows && column < columns) tile[row][threadIdx.x] = in[from * columns + column];
  }
#ifndef NO_BARRIER
  __syncthreads();
#endif
  int to = TILE * blockIdx.y + threadIdx.x;
  for (int row = threadIdx.y; row < TILE; row += ROWS) {
    int from = TILE * blockIdx.x + row;
#ifdef NO_EDGE
    if (to < rows)
#else
    if (to < rows && from < columns)
#endif
      out[from * rows + to] = tile[threadIdx.x][row];  // reported: NO_BARRIER, NO_EDGE
  }
}
