// kind=member-mask block=32
extern "C" __global__ void ballot(int* out, const int* in) {
  int t = threadIdx.x;
  unsigned mask = FAULT ? 0x7fffffff : ~0u;
  unsigned odd = __ballot_sync(mask, in[t] & 1); /*1*/
  out[t] = __popc(odd);
}
