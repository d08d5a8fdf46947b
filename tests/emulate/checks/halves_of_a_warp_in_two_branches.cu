// kind=member-mask block=64 also=uninitialized-register
extern "C" __global__ void sums(int* out, const int* in) {
  int t = threadIdx.x, sum = in[t];
  if (t % 32 < 16) {
    for (int i = 8; i > 0; i /= 2) sum += __shfl_xor_sync(FAULT ? 0xfffeu : 0xffffu, sum, i); /*1*/
    __syncwarp();
  } else {
    sum = __reduce_max_sync(0xffff0000, sum);
    __syncwarp();
  }
  out[t] = sum;
}
