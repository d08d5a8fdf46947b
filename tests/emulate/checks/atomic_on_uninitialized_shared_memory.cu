// kind=uninitialized-shared block=128
extern "C" __global__ void count(int* out, const int* in) {
  __shared__ int total;
  if (!FAULT && threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[threadIdx.x]); /*1*/
  __syncthreads();
  out[threadIdx.x] = total;
}
