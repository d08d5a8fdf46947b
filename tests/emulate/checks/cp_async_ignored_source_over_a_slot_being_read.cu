// kind=race block=128
#include "wrappers.cuh"
extern "C" __global__ void ignored(int* out, const int* in) {
  __shared__ __align__(16) int row[128];
  int t = threadIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(row + t);
  row[t] = in[t];
  __syncthreads();
  out[t] = row[127 - t]; /*2*/
  if (!FAULT) __syncthreads();
  asm volatile(
      "{.reg .pred p; setp.ge.u32 p, %2, 64;" /*1*/
      " cp.async.ca.shared.global [%0], [%1], 4, p;}" ::"r"(to),
      "l"(in + t), "r"(t)
      : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[128 + t] = row[t];
}
