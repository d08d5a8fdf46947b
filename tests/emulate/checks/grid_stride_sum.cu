// kind=race grid=3 block=128
extern "C" __global__ void sum(int* out, const int* in) {
  int total = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1000; i += gridDim.x * blockDim.x)
    total += in[i];
#if FAULT
  out[0] += total; /*1*/ /*2*/
#else
  atomicAdd(out, total);
#endif
}
