// Each block counts bytes in shared memory and adds its counts to those of the grid.
extern "C" __global__ void histogram(unsigned* out, const uchar4* in, int count) {
  __shared__ unsigned bins[256];
#ifndef NOT_CLEARED
  bins[threadIdx.x] = 0;
#endif
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) {
    uchar4 four = in[i];
    atomicAdd(&bins[four.x], 1u);  // reported: NOT_CLEARED
    atomicAdd(&bins[four.y], 1u);
    atomicAdd(&bins[four.z], 1u);
    atomicAdd(&bins[four.w], 1u);
  }
  __syncthreads();
  if (bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
