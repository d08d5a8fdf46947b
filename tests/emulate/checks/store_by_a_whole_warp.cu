// kind=overwrite-before-wait block=64
#include "wrappers.cuh"
// All lanes of a warp issue the same store, as in CUTLASS's epilogue; with the fault, half of them
// issue another one.
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int rows[128];
  int t = threadIdx.x;
  rows[t] = in[t];
  rows[64 + t] = in[64 + t];
  proxy_fence();
  __syncthreads();
  if (t / 32 == 0) {
    bulk_store(out, shared_address(FAULT && t % 2 ? rows + 64 : rows), 256); /*1*/ /*2*/
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  rows[t] = 0;
  if (t / 32 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
