// kind=race block=128
extern "C" __global__ void halves(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x;
  row[t] = in[t]; /*2*/
  asm volatile("bar.sync %0, 64;" ::"r"(1 + t / 64) : "memory");
  out[t] = row[FAULT ? 127 - t : t / 64 * 64 + 63 - t % 64]; /*1*/
}
