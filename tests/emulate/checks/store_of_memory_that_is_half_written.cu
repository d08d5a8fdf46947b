// kind=uninitialized-shared block=128
#include "wrappers.cuh"
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  if (t < 64 || !FAULT) row[t] = in[t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    bulk_store(out, shared_address(row), 512); /*1*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
