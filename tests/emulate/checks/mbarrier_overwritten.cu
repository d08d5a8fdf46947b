// kind=mbarrier-access block=64
#include "wrappers.cuh"
// The kernel keeps the sums of two warps in memory that was an mbarrier.
extern "C" __global__ void reused(int* out, const int* in) {
  __shared__ u64 barrier;
  int* sums = reinterpret_cast<int*>(&barrier);
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t < 2) sums[t] = 0;
  __syncthreads();
  if (t == 0) mbarrier_init(b, 64); /*2*/
  __syncthreads();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
  mbarrier_wait(b, 0);
  __syncthreads();
  if (!FAULT && t == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b) : "memory");
  __syncthreads();
  if (t % 32 == 0) sums[t / 32] = in[t]; /*1*/
  __syncthreads();
  out[t] = sums[t / 32 ^ 1];
}
