// kind=race grid=4 block=32
extern "C" __global__ void lock(int* out, const int* in) {
  int* mutex = out + 1024;
  if (threadIdx.x == 0) {
    while (atomicCAS(mutex, 0, 1) != 0) {
    }
    if (!FAULT) __threadfence();
    ((volatile int*)out)[1] = blockIdx.x;
    out[0] = out[0] + in[blockIdx.x]; /*1*/ /*2*/
    if (!FAULT) __threadfence();
    atomicExch(mutex, 0);
  }
}
