// kind=overwrite-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void reuse(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < 3; i++) {
    if (!FAULT && t == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncthreads();
    row[t] = in[128 * i + t]; /*1*/
    proxy_fence();
    __syncthreads();
    if (t == 0) bulk_store(out + 128 * i, shared_address(row), 512); /*2*/
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
