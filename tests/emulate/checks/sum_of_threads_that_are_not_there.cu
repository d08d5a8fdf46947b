// kind=uninitialized-register block=48
extern "C" __global__ void sums(int* out, const int* in) {
  int t = threadIdx.x, sum = in[t];
  for (int i = FAULT || t < 32 ? 16 : 8; i > 0; i /= 2) sum += __shfl_down_sync(~0u, sum, i); /*2*/
  if (t % 32 == 0) out[t / 32] = sum;                                                         /*1*/
}
