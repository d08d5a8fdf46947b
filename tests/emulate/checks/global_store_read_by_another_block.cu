// kind=race block=32 grid=2
#include "wrappers.cuh"
extern "C" __global__ void hand_over(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  int t = threadIdx.x;
  if (blockIdx.x == 1) {
    row[t] = in[t];
    proxy_fence();
    __syncwarp();
    if (t == 0) {
      bulk_store(out, shared_address(row), 128); /*2*/
      if (!FAULT) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(out + 64) : "memory");
      if (FAULT) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
  } else {
    int ready = 0;
    while (!ready) {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(out + 64) : "memory");
    }
    out[32 + t] = *(volatile int*)(out + t); /*1*/
  }
}
