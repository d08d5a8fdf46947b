// kind=race block=64 grid=4 cluster=2
#include "wrappers.cuh"
// The block that takes the last ticket lets all blocks go on.
__device__ void grid_sync(int* tickets) {
  __syncthreads();
  if (threadIdx.x == 0) {
    int old;
    if (FAULT)
      asm volatile("atom.add.acquire.gpu.global.s32 %0, [%1], 1;"
                   : "=r"(old)
                   : "l"(tickets)
                   : "memory");
    else
      asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;"
                   : "=r"(old)
                   : "l"(tickets)
                   : "memory");
    if (old == gridDim.x - 1)
      release_flag(tickets + 1);
    else
      acquire_flag(tickets + 1);
  }
  __syncthreads();
}
extern "C" __global__ void exchange(int* out, const int* in) {
  int i = blockIdx.x * 64 + threadIdx.x;
  out[i] = in[i]; /*2*/
  grid_sync(out + 1024);
  out[256 + i] = out[(i + 64) % 256]; /*1*/
}
