// kind=uninitialized-shared block=128
extern "C" __global__ void halo(int* out, const int* in) {
  __shared__ int row[130];
  int t = threadIdx.x;
  row[t + 1] = in[t];
  if (t == 0) row[0] = 0;
  if (t == 0 && !FAULT) row[129] = 0;
  __syncthreads();
  int ahead = row[t + 2]; /*2*/
  int here = row[t] + row[t + 1];
  out[t] = here + ahead; /*1*/
}
