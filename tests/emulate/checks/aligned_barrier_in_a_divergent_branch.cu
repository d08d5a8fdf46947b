// kind=divergent-collective block=64 error=Deadlock
extern "C" __global__ void diverge(int* out, const int* in) {
  __shared__ int row[64];
  int t = threadIdx.x;
  row[t] = in[t];
  if (!FAULT || t < 48)
    asm volatile("barrier.sync.aligned 1, 64;" ::: "memory"); /*1*/
  else
    asm volatile("barrier.sync.aligned 2, 64;" ::: "memory"); /*1*/
  out[t] = row[63 - t];
}
