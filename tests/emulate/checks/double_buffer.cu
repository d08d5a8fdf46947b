// kind=race block=128 also=uninitialized-shared
extern "C" __global__ void ring(int* out, const int* in) {
  __shared__ int stage[2][128];
  int t = threadIdx.x, sum = 0;
  stage[0][t] = in[t];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 4; i++) {
    int next = FAULT ? i % 2 : (i + 1) % 2;
    sum += stage[i % 2][127 - t];           /*2*/
    stage[next][t] = in[128 * (i + 1) + t]; /*1*/
    __syncthreads();
  }
  out[t] = sum;
}
