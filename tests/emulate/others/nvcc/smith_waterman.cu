// Local alignment of pairs of strings: a warp has a pair, and its lanes walk down a band of 32
// columns in a wave.
extern "C" __global__ void smith_waterman(int* best, const char* first, const char* second,
                                          int rows, int columns) {
  extern __shared__ short edges[];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
      pair = blockIdx.x * (blockDim.x / 32) + warp;
  short* edge = edges + warp * (rows + 1);  // scores at the right edge of the band before
  first += pair * rows, second += pair * columns;
  for (int i = lane; i <= rows; i += 32) edge[i] = 0;
  __syncwarp();
  int most = 0;
  for (int band = 0; band < columns; band += 32) {
    char mine = band + lane < columns ? second[band + lane] : 0;
    int above = 0, diagonal = 0;
    for (int step = 0; step < rows + 31; step++) {
      int row = step - lane, before = __shfl_up_sync(~0u, above, 1);
      if (lane == 0 && row < rows) before = edge[row + 1];
      if (row >= 0 && row < rows && mine) {
        int match = diagonal + (first[row] == mine ? 3 : -2);
        diagonal = before;
        above = max(0, max(match, max(above, before) - 1));
        most = max(most, above);
      }
#ifndef NO_SYNCWARP
      __syncwarp();
#endif
      if (lane == 31 && row >= 0) edge[row + 1] = above;  // reported: NO_SYNCWARP
    }
    __syncwarp();
  }
  most = __reduce_max_sync(~0u, most);
  if (lane == 0) best[pair] = most;
}
