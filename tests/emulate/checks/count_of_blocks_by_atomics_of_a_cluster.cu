// kind=race grid=4 block=32 cluster=2
extern "C" __global__ void last(int* out, const int* in) {
  int *counter = out + 1024, found;
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = in[blockIdx.x]; /*2*/
  __threadfence();
  if (FAULT)
    asm volatile("atom.relaxed.cluster.global.add.s32 %0, [%1], 1;" /*1*/ /*2*/
                 : "=r"(found)
                 : "l"(counter)
                 : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;"
                 : "=r"(found)
                 : "l"(counter)
                 : "memory");
  __threadfence();
  if (found == 3)
    for (int i = 0; i < 4; i++) out[64 + i] = out[i]; /*1*/
}
