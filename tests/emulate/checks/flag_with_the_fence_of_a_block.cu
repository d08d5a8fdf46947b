// kind=race grid=2 block=32
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = in[0]; /*2*/
    if (FAULT)
      __threadfence_block();
    else
      __threadfence();
    *ready = 1;
  } else if (threadIdx.x == 0) {
    while (*ready != 1) {
    }
    __threadfence();
    out[1] = out[0]; /*1*/
  }
}
