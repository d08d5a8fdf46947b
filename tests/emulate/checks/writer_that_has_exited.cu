// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void writer(int* out, const int* in) {
  __shared__ int row[64];
  int t = threadIdx.x;
  cluster_sync();
  if (t >= 64) {
    store_at_rank(shared_address(row + t - 64), blockIdx.x ^ 1, in[t]); /*2*/
    return;
  }
  if (!FAULT) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  out[64 * blockIdx.x + t] = row[t]; /*1*/
  if (FAULT) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
