// kind=read-before-wait grid=2 block=128 cluster=2 also=cluster-exit
#include "wrappers.cuh"
extern "C" __global__ void sum(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int total;
  int t = threadIdx.x, peer = blockIdx.x ^ 1;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    total = 0;
    mbarrier_init(b, 1);
    mbarrier_expect(b, 512);
  }
  cluster_sync();
  asm volatile(
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32"
      " [%0], %1, [%2];" ::"r"(at_rank(shared_address(&total), peer)), /*2*/
      "r"(in[128 * blockIdx.x + t]), "r"(at_rank(b, peer))
      : "memory");
  if (!FAULT) mbarrier_wait_for_cluster(b, 0);
  if (t == 0) out[blockIdx.x] = total; /*1*/
  cluster_sync();
}
