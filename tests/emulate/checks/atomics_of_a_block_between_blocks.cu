// kind=race grid=4 block=64
extern "C" __global__ void count(int* out, const int* in) {
  if (FAULT)
    atomicAdd_block(out, in[threadIdx.x]); /*1*/ /*2*/
  else
    atomicAdd(out, in[threadIdx.x]);
  atomicAdd_block(out + 1 + blockIdx.x, 1);
}
