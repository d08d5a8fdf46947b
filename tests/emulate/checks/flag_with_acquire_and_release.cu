// kind=race grid=2 block=128
extern "C" __global__ void flag(int* out, const int* in) {
  int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x]; /*2*/
    __syncthreads();
    if (threadIdx.x == 0) {
      if (FAULT)
        asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(ready) : "memory");
      else
        asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(ready) : "memory");
    }
  } else {
    if (threadIdx.x == 0) {
      int seen;
      do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(ready) : "memory");
      } while (seen != 1);
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[127 - threadIdx.x]; /*1*/
  }
}
