// kind=mbarrier-init grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ u64 barrier;
  int t = threadIdx.x;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory"); /*2*/
    if (FAULT)
      proxy_fence();
    else
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::
                   : "memory");
  if (t == 0) mbarrier_arrive_at_rank(b, blockIdx.x ^ 1); /*1*/
  mbarrier_wait(b, 0);
  out[blockIdx.x * 128 + t] = in[t];
  cluster_sync();
}
