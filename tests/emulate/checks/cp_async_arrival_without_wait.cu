// kind=read-before-wait block=128
#include "wrappers.cuh"
extern "C" __global__ void arrive(int* out, const int* in) {
  __shared__ __align__(16) int row[128];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 128);
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(row + t)),
               "l"(in + t)
               : "memory"); /*2*/
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
  if (!FAULT) mbarrier_wait(b, 0);
  out[t] = row[t]; /*1*/
}
