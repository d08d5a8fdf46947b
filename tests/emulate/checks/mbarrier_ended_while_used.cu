// kind=race block=128
#include "wrappers.cuh"
extern "C" __global__ void ended(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  __syncthreads();
  if (t == 0) {
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b);
  }
  mbarrier_wait(b, 0);
  out[t] = row[t];
  if (!FAULT) __syncthreads();
  if (t == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b) : "memory"); /*1*/
}
