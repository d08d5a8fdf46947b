// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ int row[128];
  int t = threadIdx.x;
  store_at_rank(shared_address(row + t), blockIdx.x ^ 1, in[128 * blockIdx.x + t]); /*2*/
  if (FAULT)
    asm volatile("fence.acq_rel.cta;" ::: "memory");
  else
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::
                   : "memory");
  out[128 * blockIdx.x + t] = row[127 - t]; /*1*/
  cluster_sync();
}
