// kind=tensormap-fence block=64
#include "wrappers.cuh"
__device__ Map map;
extern "C" __global__ void make(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ u64 barrier;
  int t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(shared_address(&barrier), 1);
    make_map(&map, in); /*2*/
    if (!FAULT) asm volatile("fence.proxy.tensormap::generic.release.cta;" ::: "memory");
  }
  __syncthreads();
  asm volatile("fence.proxy.tensormap::generic.acquire.cta [%0], 128;" ::"l"(&map) : "memory");
  if (t == 32) tensor_load(shared_address(row), &map, shared_address(&barrier)); /*1*/
  mbarrier_wait(shared_address(&barrier), 0);
  if (t < 32) out[t] = row[t];
}
