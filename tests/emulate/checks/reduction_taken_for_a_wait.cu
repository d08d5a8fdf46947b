// kind=race grid=2 block=32
// red returns no value, so a fence after it does not acquire: "Reductions do not form Acquire
// Patterns".
__device__ int touch(int* place) {
  int found = 0;
  if (FAULT)
    asm volatile("red.relaxed.gpu.global.or.b32 [%0], 2;" ::"l"(place) : "memory");
  else
    asm volatile("atom.relaxed.gpu.global.or.b32 %0, [%1], 2;"
                 : "=r"(found)
                 : "l"(place)
                 : "memory");
  return found;
}
extern "C" __global__ void count(int* out, const int* in) {
  int* ready = out + 1024;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    while (!(touch(ready) & 1) && !FAULT) {
    }
    __threadfence();
    out[1] = out[0]; /*1*/
  } else {
    out[0] = in[0]; /*2*/
    asm volatile("red.release.gpu.global.or.b32 [%0], 1;" ::"l"(ready) : "memory");
  }
}
