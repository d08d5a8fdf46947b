// kind=race block=128
extern "C" __global__ void named(int* out, const int* in) {
  __shared__ int box[64];
  int t = threadIdx.x;
  if (t < 64) {
#pragma unroll 1
    for (int i = 0; i < 3; i++) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      box[t] = in[64 * i + t]; /*1*/ /*2*/
      asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  } else {
    asm volatile("bar.arrive 1, 128;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < 3; i++) {
      asm volatile("bar.sync 2, 128;" ::: "memory");
      if (FAULT && i < 2) asm volatile("bar.arrive 1, 128;" ::: "memory");
      out[64 * i + t - 64] = box[127 - t]; /*1*/ /*2*/
      if (!FAULT && i < 2) asm volatile("bar.arrive 1, 128;" ::: "memory");
    }
  }
}
