// kind=read-before-wait block=128 policy=lazy also=cluster-exit
#include "wrappers.cuh"
extern "C" __global__ void poll(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 1);
  __syncthreads();
  if (t == 0) {
    mbarrier_expect(b, 512);
    bulk_load(shared_address(row), in, 512, b); /*2*/
  }
  unsigned done = 0;
  do {
    asm volatile(
        "{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, "
        "p;}"
        : "=r"(done)
        : "r"(b)
        : "memory");
  } while (!done && !FAULT);
  out[t] = row[t]; /*1*/
}
