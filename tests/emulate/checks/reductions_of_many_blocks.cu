// kind=race block=128 grid=4
#include "wrappers.cuh"
extern "C" __global__ void sum(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  int t = threadIdx.x;
  row[t] = in[128 * blockIdx.x + t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    if (FAULT && blockIdx.x == 3) bulk_store(out, shared_address(row), 512); /*1*/ /*2*/
    else bulk_reduce(out, shared_address(row), 512); /*1*/ /*2*/
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
