// kind=race block=128
extern "C" __global__ void last_wins(int* out, const int* in) {
  __shared__ int chosen;
  chosen = FAULT ? in[threadIdx.x] : in[0]; /*1*/ /*2*/
  __syncthreads();
  out[threadIdx.x] = chosen;
}
