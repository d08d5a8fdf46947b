// kind=member-mask block=64 error=Deadlock
extern "C" __global__ void exchange(int* out, const int* in) {
  int t = threadIdx.x, value = in[t], found;
  if (t % 32 < 16)
    found = __shfl_xor_sync(~0u, value, 16); /*1*/
  else
    found = 1 + (FAULT ? __shfl_down_sync(~0u, value, 16) : __shfl_xor_sync(~0u, value, 16)); /*1*/
  out[t] = found;
}
