// kind=race grid=2 block=128
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x]; /*2*/
    __syncthreads();
    if (threadIdx.x == 0) {
      if (!FAULT) __threadfence();
      *ready = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*ready != 1) {
      }
      if (!FAULT) __threadfence();
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[127 - threadIdx.x]; /*1*/
  }
}
