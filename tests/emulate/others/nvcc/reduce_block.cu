// The sum and the maximum of each row: shuffles in warps, then shared memory, then the first warp.
#include <climits>

struct Pair {
  int sum, most;
};

__device__ Pair of_warp(Pair value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value.sum += __shfl_xor_sync(~0u, value.sum, lanes);
    value.most = max(value.most, __shfl_xor_sync(~0u, value.most, lanes));
  }
  return value;
}

extern "C" __global__ void reduce_block(int2* out, const int* in, int columns) {
  __shared__ Pair partial[32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  Pair value{0, INT_MIN};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    int element = in[blockIdx.x * columns + i];
    value = {value.sum + element, max(value.most, element)};
  }
  value = of_warp(value);
  if (lane == 0) partial[warp] = value;
#ifndef NO_BARRIER
  __syncthreads();
#endif
  if (warp > 0) return;
#ifdef TOO_MANY
  value = partial[lane];  // reported: NO_BARRIER
#else
  value = lane < warps ? partial[lane] : Pair{0, INT_MIN};  // reported: NO_BARRIER
#endif
  value = of_warp(value);  // reported: TOO_MANY
  if (lane == 0) out[blockIdx.x] = make_int2(value.sum, value.most);
}
