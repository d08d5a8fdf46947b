// kind=mbarrier-init block=128
#include "wrappers.cuh"
extern "C" __global__ void early(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    mbarrier_init(b, 1); /*2*/
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b);
  }
  if (!FAULT) __syncthreads();
  asm volatile(
      "{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra D; bra W; D: }" /*1*/
      ::"r"(b)
      : "memory");
  out[t] = row[t];
}
