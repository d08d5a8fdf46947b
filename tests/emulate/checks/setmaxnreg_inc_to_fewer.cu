// kind=setmaxnreg block=384
#if FAULT
#define REGISTERS "160"
#else
#define REGISTERS "168"
#endif
extern "C" __global__ void __launch_bounds__(384, 1) fewer(int* out, const int* in) {
  if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  else if (threadIdx.x < 256) asm volatile("setmaxnreg.inc.sync.aligned.u32 " REGISTERS ";"); /*1*/
  else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  out[threadIdx.x] = in[threadIdx.x];
}
