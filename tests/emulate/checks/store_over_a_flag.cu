// kind=race block=64 grid=2
#include "wrappers.cuh"
// A store over a flag does not pass on what another thread released by it; an atomic does.
__device__ void wait_for(int* flag, int wanted) {
  int value = 0;
  while (value != wanted) {
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  }
}
extern "C" __global__ void store_over_a_flag(int* out, const int* in) {
  int* flag = out + 64;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = in[5]; /*2*/
    release_flag(flag);
  } else if (blockIdx.x == 0 && threadIdx.x == 32) {
    wait_for(flag, 1);
    int old;
    if (FAULT)
      asm volatile("st.relaxed.gpu.global.s32 [%0], 2;" ::"l"(flag) : "memory");
    else
      asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 2;"
                   : "=r"(old)
                   : "l"(flag)
                   : "memory");
  } else if (blockIdx.x == 1 && threadIdx.x == 0) {
    wait_for(flag, 2);
    acquire_flag(flag);
    out[1] = out[0]; /*1*/
  }
}
