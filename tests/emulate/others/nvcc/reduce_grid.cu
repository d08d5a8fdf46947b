// One sum of a whole array: each block writes its part, and the last one to finish adds the parts.
__device__ unsigned finished;

extern "C" __global__ void reduce_grid(int* out, int* parts, const int* in, int count) {
  __shared__ int partial[8];
  __shared__ bool last;
  auto of_block = [&](int value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(~0u, value, lanes);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int warp = 1; warp < 8; warp++) value += partial[warp];
    return value;
  };

  int value = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) value += in[i];
  value = of_block(value);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = value;
#ifndef NO_FENCE
    __threadfence();
#endif
    last = atomicAdd(&finished, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  value = threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0;  // reported: NO_FENCE
  value = of_block(value);
  if (threadIdx.x == 0) *out = value, finished = 0;
}
