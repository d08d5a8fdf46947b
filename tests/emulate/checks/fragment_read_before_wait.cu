// kind=accumulator-before-wait block=128
#include "wrappers.cuh"
// A is in registers, and wgmma may still read them.
extern "C" __global__ void product(int* out, const int* in) {
  __shared__ __align__(128) int tile[8 * 8];
  int t = threadIdx.x;
  if (t < 64) tile[t] = in[t];
  int a[4];
  for (int i = 0; i < 4; i++) a[i] = in[4 * t + i];
  proxy_fence();
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]), "+r"(a[i])::"memory");
  wgmma_fence();
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16" /*2*/
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0; wgmma.commit_group.sync.aligned;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(tile))
      : "memory");
  if (FAULT) out[512 + t] = a[0]; /*1*/
  wgmma_wait();
  for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[i]), "+r"(a[i])::"memory");
  for (int i = 0; i < 4; i++) out[4 * t + i] = __float_as_int(d[i]) + a[i];
}
