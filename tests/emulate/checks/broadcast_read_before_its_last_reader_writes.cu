// kind=race block=32
extern "C" __global__ void replace(int* out, const int* in) {
  __shared__ int s;
  int t = threadIdx.x;
  if (t == 0) s = in[0];
  __syncwarp();
  int first = s; /*2*/
  if (!FAULT) __syncwarp();
  if (t == 31) s = first + 1; /*1*/
  __syncwarp();
  out[t] = s - first;
}
