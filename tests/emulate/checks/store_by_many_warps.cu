// kind=overwrite-before-wait block=192
#include "wrappers.cuh"
extern "C" __global__ void store(int* out, const int* in) {
  __shared__ __align__(128) int row[192];
  int t = threadIdx.x, warp = t / 32;
  row[t] = in[t];
  proxy_fence();
  __syncthreads();
  if (t % 32 == 0) {
    bulk_store(out + 192 * warp, shared_address(row), 768); /*2*/
    if (!FAULT || warp > 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  row[t] = 0; /*1*/
  if (t % 32 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  __syncthreads();
  out[1152 + t] = row[t];
}
