// kind=wgmma-fence block=128
#include "wrappers.cuh"
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tiles[64 * 8 + 8 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 576; i += 128) tiles[i] = in[i];
  proxy_fence();
  __syncthreads();
  float d[4];
  if (FAULT) wgmma_fence();
  for (int i = 0; i < 4; i++) d[i] = *(const volatile float*)(in + i); /*2*/
  if (!FAULT) wgmma_fence();
  multiply(d, tiles, tiles + 512); /*1*/
  wgmma_wait();
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]);
}
