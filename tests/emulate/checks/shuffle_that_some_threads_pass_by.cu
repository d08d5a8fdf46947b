// kind=member-mask block=64
extern "C" __global__ void first_of_some(int* out, const int* in) {
  int t = threadIdx.x, value = in[t];
  if (!FAULT && t >= 40) return;
  if (t < 40) value = __shfl_sync(~0u, value, 0); /*1*/
  out[t] = value;
}
