// kind=race grid=2 block=32
extern "C" __global__ void flag(int* out, const int* in) {
  volatile int* ready = out + 1024;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = in[0]; /*2*/
    if (FAULT)
      asm volatile("fence.acquire.gpu;" ::: "memory");
    else
      asm volatile("fence.release.gpu;" ::: "memory");
    *ready = 1;
  } else {
    while (*ready != 1) {
    }
    asm volatile("fence.acquire.gpu;" ::: "memory");
    out[1] = out[0]; /*1*/
  }
}
