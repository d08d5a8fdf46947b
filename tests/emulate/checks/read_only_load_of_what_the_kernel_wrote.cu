// kind=read-only-load block=64
extern "C" __global__ void reverse(int* out, const int* in) {
  int i = threadIdx.x;
  out[i] = in[i]; /*2*/
  __syncthreads();
  int other;
  if (FAULT) {
    other = __ldg(out + 63 - i); /*1*/
  } else {
    other = out[63 - i];
  }
  out[64 + i] = other + __ldg(in + i);
}
