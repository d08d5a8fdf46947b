// kind=race grid=5 block=128
extern "C" __global__ void last_block(int* out, const int* in) {
  __shared__ bool last;
  unsigned* tickets = (unsigned*)out + 1024;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[blockIdx.x]; /*2*/
    if (!FAULT) __threadfence();
    last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) out[64 + threadIdx.x] = out[threadIdx.x]; /*1*/
}
