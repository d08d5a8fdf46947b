// kind=setmaxnreg block=384
extern "C" __global__ void __launch_bounds__(384, 1) more(int* out, const int* in) {
  int group = threadIdx.x / 128;
  int value = in[threadIdx.x];
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 104;"); /*2*/
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (FAULT) asm volatile("setmaxnreg.dec.sync.aligned.u32 112;"); /*1*/
    if (!FAULT) asm volatile("setmaxnreg.dec.sync.aligned.u32 104;");
    asm volatile("bar.sync 1, 128;" ::: "memory");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 168;");
  }
  out[threadIdx.x] = value;
}
