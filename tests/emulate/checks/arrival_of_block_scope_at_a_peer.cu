// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int row[128];
  int t = threadIdx.x, rank = blockIdx.x ^ 1;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 128);
  cluster_sync();
  store_at_rank(shared_address(row + t), rank, in[128 * blockIdx.x + t]); /*2*/
  if (FAULT)
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at_rank(b, rank)) : "memory");
  else
    mbarrier_arrive_at_rank(b, rank);
  mbarrier_wait_for_cluster(b, 0);
  out[128 * blockIdx.x + t] = row[127 - t]; /*1*/
  cluster_sync();
}
