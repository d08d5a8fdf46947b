// kind=setmaxnreg block=256
extern "C" __global__ void __launch_bounds__(256, 1) one_warp(int* out, const int* in) {
  if (threadIdx.x < (FAULT ? 32 : 128)) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); /*1*/
  out[threadIdx.x] = in[threadIdx.x];
}
