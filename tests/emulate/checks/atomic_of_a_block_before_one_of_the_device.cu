// kind=race grid=2 block=32
// What the block counts for itself is not over for the other block when it counts for all.
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
