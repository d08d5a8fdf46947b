// kind=race block=128
extern "C" __global__ void mixed(int* out, const int* in) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[threadIdx.x]); /*2*/
  if (!FAULT) __syncthreads();
  if (threadIdx.x == 0) total *= 2; /*1*/
  __syncthreads();
  out[threadIdx.x] = total;
}
