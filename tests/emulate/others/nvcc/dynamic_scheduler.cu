// A persistent grid takes rows of uneven lengths from an atomic counter; thread 0 tells its block
// which row is next.
extern "C" __global__ void dynamic_scheduler(int* out, const int* in, const int* starts, int rows,
                                             int* next_row) {
  __shared__ int row_of_block, sums[4];
  while (true) {
    if (threadIdx.x == 0) row_of_block = atomicAdd(next_row, 1);
    __syncthreads();
    int row = row_of_block;  // reported: NO_BARRIER
#ifndef NO_BARRIER
    __syncthreads();  // before thread 0 overwrites it
#endif
    if (row >= rows) break;
    int sum = 0;
    for (int i = starts[row] + threadIdx.x; i < starts[row + 1]; i += 128) sum += in[i];
    sum = __reduce_add_sync(~0u, sum);
#ifdef NO_BARRIER
    if (threadIdx.x % 32 == 0 && sum) atomicAdd(&out[row], sum);
#else
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) out[row] += sums[0] + sums[1] + sums[2] + sums[3];
#endif
  }
}
