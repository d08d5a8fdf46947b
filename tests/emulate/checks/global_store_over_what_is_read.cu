// kind=race block=128
#include "wrappers.cuh"
extern "C" __global__ void rotate(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  out[t] = in[t];
  asm volatile("fence.proxy.async.global;" ::: "memory");
  __syncthreads();
  row[t] = *(volatile int*)(out + (t + 1) % 128); /*2*/
  int late = *(volatile int*)(out + (t + 2) % 128); /*2*/
  proxy_fence();
  if (!FAULT) __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 256); /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  out[128 + t] = late;
}
