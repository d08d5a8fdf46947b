// kind=race block=128
extern "C" __global__ void reduce(int* out, const int* in) {
  __shared__ int sums[128];
  int t = threadIdx.x;
  sums[t] = in[t]; /*2*/
  for (int step = 64; step > 0; step /= 2) {
    if (!FAULT) __syncthreads();
    if (t < step) sums[t] += sums[t + step]; /*1*/ /*2*/
  }
  if (t == 0) out[0] = sums[0];
}
