// kind=race block=128
extern "C" __global__ void early(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x;
  row[t] = in[t]; /*2*/
  if (t >= 64) return;
  if (!FAULT) __syncthreads();
  out[t] = row[64 + t]; /*1*/
}
