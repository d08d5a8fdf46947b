// kind=race block=128
#include "wrappers.cuh"
extern "C" __global__ void copy(int* out, const int* in) {
  __shared__ __align__(16) int row[512];
  int t = threadIdx.x, left = 300 - 4 * t;
  unsigned to = (unsigned)__cvta_generic_to_shared(row + 4 * t), bytes = left >= 4  ? 16
                                                                         : left > 0 ? 4 * left
                                                                                    : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(in + 4 * t),
               "r"(bytes)
               : "memory"); /*2*/
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (!FAULT) __syncthreads();
  for (int i = 0; i < 4; i++) out[i * 128 + t] = row[511 - i * 128 - t]; /*1*/
}
