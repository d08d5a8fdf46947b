// kind=race grid=4 block=32
extern "C" __global__ void flag(int* out, const int* in) {
  int *ready = out + 1024, found = 0;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    out[0] = in[0]; /*2*/
    if (FAULT)
      asm volatile("st.release.cta.global.s32 [%0], 1;" ::"l"(ready) : "memory"); /*1*/ /*2*/
    else
      asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(ready) : "memory");
  } else if (blockIdx.x == 3) {
    while (found != 1)
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" /*1*/ /*2*/
                   : "=r"(found)
                   : "l"(ready)
                   : "memory");
    out[1] = out[0]; /*1*/
  }
}
