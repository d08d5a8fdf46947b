// kind=grid-dependency block=128 dependent=1
#include "wrappers.cuh"
extern "C" __global__ void reverse(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    mbarrier_init(b, 1);
    if (!FAULT) asm volatile("griddepcontrol.wait;" ::: "memory");
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b); /*1*/
    if (FAULT) asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  __syncthreads();
  mbarrier_wait(b, 0);
  out[t] = row[127 - t];
}
