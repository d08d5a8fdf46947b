// kind=register-budget block=384
extern "C" __global__ void __launch_bounds__(384, 1) budget(int* out, const int* in) {
  if (threadIdx.x < 128) {
    if (!FAULT) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); /*1*/
  }
  out[threadIdx.x] = in[threadIdx.x];
}
