// kind=race grid=5 block=128
// Every thread fences its own writes. After the barrier, one counts its block without a fence.
extern "C" __global__ void last_block(int* out, const int* in) {
  __shared__ bool last;
  int* count = out + 2048;
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = in[i]; /*2*/
  if (FAULT)
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  else
    __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(count, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last) out[1024 + threadIdx.x] = out[128 + threadIdx.x] + out[640 - 1 - threadIdx.x]; /*1*/
}
