// kind=divergent-collective block=64
extern "C" __global__ void reverse(int* out, const int* in) {
  __shared__ int row[40];
  int t = threadIdx.x;
  if (!FAULT && t >= 40) return;
  if (t < 40) {
    row[t] = in[t];
    __syncthreads(); /*1*/
    out[t] = row[39 - t];
  }
  out[64 + t] = t;
}
