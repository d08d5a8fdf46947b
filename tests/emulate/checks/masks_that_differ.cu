// kind=member-mask block=32
extern "C" __global__ void pairs(int* out, const int* in) {
  int t = threadIdx.x;
  unsigned mask = FAULT && t == 3 ? 0x7fffffff : ~0u;
  out[t] = __shfl_sync(mask, in[t], t ^ 1); /*1*/
}
