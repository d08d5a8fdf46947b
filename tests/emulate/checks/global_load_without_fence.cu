// kind=proxy-fence block=128
#include "wrappers.cuh"
extern "C" __global__ void load(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ u64 arrived;
  int t = threadIdx.x;
  unsigned barrier = shared_address(&arrived);
  out[t] = in[t]; /*2*/
  if (FAULT) proxy_fence(); // only covers shared memory
  else asm volatile("fence.proxy.async.global;" ::: "memory");
  if (t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 512);
  }
  __syncthreads();
  if (t == 0) bulk_load(shared_address(row), out, 512, barrier); /*1*/
  mbarrier_wait(barrier, 0);
  out[128 + t] = row[127 - t];
}
