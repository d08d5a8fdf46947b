// kind=race block=32 grid=4 cluster=2
#include "wrappers.cuh"
// Data go from block 0 to block 2, which is in another cluster, and back to block 1.
extern "C" __global__ void relay(int* out, const int* in) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    out[0] = in[5]; /*2*/
    release_flag(out + 64);
  } else if (blockIdx.x == 2) {
    acquire_flag(out + 64);
    if (FAULT)
      asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(out + 65) : "memory");
    else
      release_flag(out + 65);
  } else if (blockIdx.x == 1) {
    acquire_flag(out + 65);
    out[1] = out[0]; /*1*/
  }
}
