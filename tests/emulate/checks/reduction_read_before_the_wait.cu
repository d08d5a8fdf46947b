// kind=read-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void sum(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    bulk_reduce(out, shared_address(row), 512);
    bulk_reduce(out, shared_address(row), 512); /*2*/
    if (!FAULT) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    else asm volatile("cp.async.bulk.wait_group 1;" ::: "memory");
  }
  __syncthreads();
  out[128 + t] = *(volatile int*)(out + t); /*1*/
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
