// kind=exit-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 512);
    if (!FAULT) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
} /*1*/
