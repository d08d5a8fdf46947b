// kind=read-before-wait block=128 policy=lazy error=BarrierProtocol also=overwrite-before-wait
#include "wrappers.cuh"
extern "C" __global__ void parity(int* out, const int* in) {
  __shared__ __align__(128) int ring[2][128];
  __shared__ u64 barriers[2];
  int t = threadIdx.x;
  unsigned full = shared_address(barriers);
  if (t == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(full + 8, 1);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 4; i++) {
    if (t == 0) {
      mbarrier_expect(full + i % 2 * 8, 512);
      bulk_load(shared_address(ring[i % 2]), in + 128 * i, 512, full + i % 2 * 8); /*2*/
    }
    mbarrier_wait(full + i % 2 * 8, (i / 2 + FAULT) & 1);
    out[128 * i + t] = ring[i % 2][t]; /*1*/
    __syncthreads();
  }
}
