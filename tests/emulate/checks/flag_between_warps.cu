// kind=race block=64
extern "C" __global__ void flag(int* out, const int* in) {
  __shared__ int row[32];
  __shared__ volatile int ready;
  int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t < 32) {
    row[t] = in[t]; /*2*/
    __syncwarp();
    if (!FAULT) __threadfence_block();
    if (t == 0) ready = 1;
  } else {
    while (!ready) {
    }
    __threadfence_block();
    out[t] = row[63 - t]; /*1*/
  }
}
