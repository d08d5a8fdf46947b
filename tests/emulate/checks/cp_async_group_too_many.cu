// kind=read-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void pipeline(int* out, const int* in) {
  __shared__ __align__(16) int ring[3][128];
  int t = threadIdx.x;
  auto fetch = [&](int i) {
    unsigned to = (unsigned)__cvta_generic_to_shared(&ring[i % 3][t]);
    if (i < 6)
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + 128 * i + t)
                   : "memory"); /*2*/
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  fetch(1);
#pragma unroll 1
  for (int i = 0; i < 6; i++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(FAULT ? 2 : 1) : "memory");
    __syncthreads();
    fetch(i + 2);
    out[128 * i + t] = ring[i % 3][t]; /*1*/
  }
}
