// Atomics of halves, pairs, vectors, doubles and 16 bits, on global and shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void vector_atomics(__half2* halves, __nv_bfloat162* brains, float4* vectors,
                                          double* doubles, unsigned short* claimed,
                                          unsigned* largest, const int* in, int bins) {
  __shared__ unsigned most;
  int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i], bin = (value & 255) % bins;
  if (threadIdx.x == 0) most = 0;
#ifndef NO_BARRIER
  __syncthreads();
#endif
  float f = value % 8;
  atomicAdd(&halves[bin], __floats2half2_rn(f, 1));
  atomicAdd(&brains[bin], __floats2bfloat162_rn(-f, 1));
  atomicAdd(&vectors[bin], make_float4(f, 2 * f, 3 * f, 1));
  atomicAdd(&doubles[bin], 0.125 * f);
  atomicCAS(&claimed[bin], static_cast<unsigned short>(0), static_cast<unsigned short>(bin + 1));
  atomicMax(&most, static_cast<unsigned>(value));  // reported: NO_BARRIER
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(largest, most);
}
