// kind=race grid=3 block=32
extern "C" __global__ void relay(int* out, const int* in) {
  volatile int* turn = out + 1024;
  if (threadIdx.x == 0) {
    while (*turn != blockIdx.x) {
    }
    if (!FAULT || blockIdx.x != 2) __threadfence();
    out[blockIdx.x] = in[blockIdx.x];              /*2*/
    if (blockIdx.x == 2) out[8] = out[0] + out[1]; /*1*/
    __threadfence();
    *turn = blockIdx.x + 1;
  }
}
