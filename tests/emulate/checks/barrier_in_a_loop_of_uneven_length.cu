// kind=divergent-collective block=64
extern "C" __global__ void rounds(int* out, const int* in) {
  __shared__ int best;
  int t = threadIdx.x, found = 0;
  for (int i = 0; i < (FAULT && t % 2 ? 1 : 3); i++) {
    __syncthreads(); /*1*/
    if (t == 0) best = in[i];
    __syncthreads(); /*1*/
    found = t % 2 ? found : best + i;
  }
  out[t] = found;
}
