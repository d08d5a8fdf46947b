// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int row[128];
  int t = threadIdx.x, found;
  unsigned b = shared_address(&barrier);
  if (t == 0) mbarrier_init(b, 128);
  cluster_sync();
  row[t] = in[128 * blockIdx.x + t]; /*2*/
  mbarrier_arrive_at_rank(b, blockIdx.x ^ 1);
  if (FAULT)
    mbarrier_wait(b, 0);
  else
    mbarrier_wait_for_cluster(b, 0);
  asm volatile("ld.shared::cluster.s32 %0, [%1];" /*1*/
               : "=r"(found)
               : "r"(at_rank(shared_address(row + 127 - t), blockIdx.x ^ 1))
               : "memory");
  out[128 * blockIdx.x + t] = found;
  cluster_sync();
}
