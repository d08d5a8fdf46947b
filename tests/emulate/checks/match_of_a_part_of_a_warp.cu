// kind=member-mask block=32
extern "C" __global__ void equals(int* out, const int* in) {
  int t = threadIdx.x;
  unsigned found = 0;
  if (t < 20) {
    unsigned mask = FAULT ? 0xffffeu : 0xfffffu;
    found = __match_any_sync(mask, in[t] % 3); /*1*/
  }
  out[t] = __popc(found);
}
