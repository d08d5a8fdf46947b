// kind=race grid=2 block=64
// A fence covers what its thread knows at the fence, but not what it learns at a later barrier.
extern "C" __global__ void flag(int* out, const int* in) {
  int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x]; /*2*/
    if (FAULT) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    __syncthreads();
    if (!FAULT) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if (threadIdx.x == 0) atomicExch(ready, 1);
  } else {
    while (atomicAdd(ready, 0) != 1) {
    }
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    out[64 + threadIdx.x] = out[63 - threadIdx.x]; /*1*/
  }
}
