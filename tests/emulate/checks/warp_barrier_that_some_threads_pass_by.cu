// kind=member-mask block=32
extern "C" __global__ void reverse(int* out, const int* in) {
  __shared__ int row[16];
  int t = threadIdx.x;
  if (t < 16) {
    row[t] = in[t];
    __syncwarp(FAULT ? ~0u : 0xffff); /*1*/
    out[t] = row[15 - t];
  }
  out[32 + t] = t;
}
