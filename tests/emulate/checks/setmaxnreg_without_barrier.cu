// kind=setmaxnreg block=256
extern "C" __global__ void __launch_bounds__(256, 1) again(int* out, const int* in) {
  int group = threadIdx.x / 128;
  asm volatile("setmaxnreg.dec.sync.aligned.u32 96;"); /*2*/
  int value = in[threadIdx.x];
  if (!FAULT) asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); /*1*/
  out[threadIdx.x] = value;
}
