// kind=race block=64 grid=2
#include "wrappers.cuh"
// All threads fence their writes. One sets a flag for a block that fences the proxies and loads the
// data by TMA.
extern "C" __global__ void load(int* out, const int* in) {
  __shared__ __align__(128) int row[64];
  __shared__ u64 arrived;
  int t = threadIdx.x, *ready = out + 1024;
  unsigned barrier = shared_address(&arrived);
  if (blockIdx.x == 1) {
    out[t] = in[t]; /*2*/
    if (!FAULT) __threadfence();
    __syncthreads();
    if (t == 0) atomicExch(ready, 1);
  } else if (t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 256);
    while (atomicAdd(ready, 0) == 0) {
    }
    __threadfence();
    asm volatile("fence.proxy.async;" ::: "memory");
    bulk_load(shared_address(row), out, 256, barrier); /*1*/
    mbarrier_wait(barrier, 0);
    for (int i = 0; i < 64; i++) out[64 + i] = row[i];
  }
}
