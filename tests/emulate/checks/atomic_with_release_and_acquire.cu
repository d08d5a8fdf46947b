// kind=race grid=4 block=32
extern "C" __global__ void count(int* out, const int* in) {
  int *counter = out + 1024, found;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[blockIdx.x]; /*2*/
    if (FAULT)
      asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;"
                   : "=r"(found)
                   : "l"(counter)
                   : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                   : "=r"(found)
                   : "l"(counter)
                   : "memory");
    if (found == 3)
      for (int i = 0; i < 4; i++) out[64 + i] = out[i]; /*1*/
  }
}
