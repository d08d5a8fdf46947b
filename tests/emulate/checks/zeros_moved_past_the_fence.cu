// kind=wgmma-serialization block=128
#include "wrappers.cuh"
// Nothing binds the zeros to their place in the source, so NVRTC sets them after the fence.
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tiles[64 * 8 + 8 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) tiles[i] = in[i];
  proxy_fence();
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  if (!FAULT) asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  wgmma_fence();
  multiply(d, tiles, tiles + 512); /*1*/ /*2*/
  wgmma_wait();
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]);
}
