// kind=race block=640
extern "C" __global__ void many(int* out, const int* in) {
  __shared__ int row[640];
  int t = threadIdx.x;
  row[t] = in[t];
  __syncthreads();
  int sum = row[0]; /*2*/
  asm volatile("" : "+r"(sum));
  if (!FAULT || t < 32) __syncwarp();
  if (!FAULT) __syncthreads();
  if (t == 512) row[0] = 0; /*1*/
  out[t] = sum;
}
