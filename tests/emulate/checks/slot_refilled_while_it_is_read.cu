// kind=overwrite-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void refill(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 3; i++) {
    if (t == 0) {
      mbarrier_expect(b, 512);
      bulk_load(shared_address(row), in + 128 * i, 512, b); /*1*/
    }
    mbarrier_wait(b, i & 1);
    out[128 * i + t] = row[127 - t]; /*2*/
    if (!FAULT) __syncthreads();
  }
}
