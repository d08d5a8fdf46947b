// kind=race grid=2 block=32
// Both threads fence, and this run puts the fences in an order. Another run may choose the other.
extern "C" __global__ void fences(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    while (!FAULT && *ready != 1) {
    }
    __threadfence();
    out[1] = out[0]; /*1*/
  } else {
    out[0] = in[0]; /*2*/
    __threadfence();
    *ready = 1;
  }
}
