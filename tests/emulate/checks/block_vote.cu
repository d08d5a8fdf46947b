// kind=race block=256
extern "C" __global__ void vote(int* out, const int* in) {
  __shared__ int row[256];
  int t = threadIdx.x, neighbor = 0;
  row[t] = in[t];                      /*2*/
  if (FAULT) neighbor = row[255 - t]; /*1*/
  int count = __syncthreads_count(in[t] > 500);
  if (!FAULT) neighbor = row[255 - t];
  int any = __syncthreads_or(neighbor == 7);
  row[t] = neighbor + count;
  int all = __syncthreads_and(neighbor >= 0);
  out[t] = row[t ^ 32] + 2000 * any + 4000 * all;
}
