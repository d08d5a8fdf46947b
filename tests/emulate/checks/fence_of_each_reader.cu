// kind=race grid=4 block=64 cluster=2
// One thread waits without a fence. After the barrier, every thread fences before it reads.
extern "C" __global__ void broadcast(int* out, const int* in) {
  int* ready = out + 2048;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x]; /*2*/
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicExch(ready, 1);
    }
  } else {
    if (threadIdx.x == 0) {
      while (atomicAdd(ready, 0) == 0) {
      }
    }
    __syncthreads();
    if (FAULT)
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
    else
      __threadfence();
    out[64 * blockIdx.x + threadIdx.x] = out[63 - threadIdx.x]; /*1*/
  }
}
