// kind=race block=128
extern "C" __global__ void histogram(int* out, const int* in) {
  __shared__ int bins[16];
  int t = threadIdx.x;
  if (t < 16) bins[t] = 0;
  __syncthreads();
  int bin = in[t] & 15;
#if FAULT
  bins[bin] += 1; /*1*/ /*2*/
#else
  atomicAdd(&bins[bin], 1);
#endif
  __syncthreads();
  if (t < 16) out[t] = bins[t];
}
