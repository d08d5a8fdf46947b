// kind=member-mask block=64
extern "C" __global__ void largest_of_some(int* out, const int* in) {
  int t = threadIdx.x, lane = t % 32, value = in[t], result = 0;
  asm volatile(
      "{ .reg .pred p;\n"
      "setp.lt.u32 p, %2, 16;\n"
      "@p redux.sync.max.s32 %0, %1, %3;\n" /*1*/
      "}"
      : "+r"(result)
      : "r"(value), "r"(lane), "r"(FAULT ? ~0u : 0xffffu));
  out[t] = result;
}
