// kind=race grid=2 block=32
// Block 1 first counts with block scope. Its later count with device scope does not order this for
// block 0.
extern "C" __global__ void count(int* out, const int* in) {
  if (threadIdx.x) return;
  if (blockIdx.x == 1) {
    if (FAULT)
      atomicAdd_block(out, in[1]); /*2*/
    else
      atomicAdd(out, in[1]);
  }
  atomicAdd(out, in[2]); /*1*/
}
