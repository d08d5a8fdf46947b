// kind=uninitialized-register block=64
extern "C" __global__ void reserve(int* out, const int* in) {
  int t = threadIdx.x, start;
  if (in[t] % 3 == 0) {
    unsigned group = __match_any_sync(__activemask(), in[t] % 2);
    int leader = __ffs(group) - 1, last = 31 - __clz(group);
    if (t % 32 == leader) start = atomicAdd(out, __popc(group));
    start = __shfl_sync(group, start, FAULT ? last : leader);   /*2*/
    out[64 + start + __popc(group & ((1u << t % 32) - 1))] = 1; /*1*/
  }
}
