// kind=race grid=2 block=32
extern "C" __global__ void flag(int* out, const int* in) {
  int *ready = out + 1024, found = 0;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    while (!found)
      if (FAULT)
        found = atomicAdd_block(ready, 0); /*1*/
      else
        found = atomicAdd(ready, 0);
    __threadfence();
    if (!FAULT) out[1] = out[0];
  } else {
    out[0] = in[0];
    asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(ready) : "memory"); /*2*/
  }
}
