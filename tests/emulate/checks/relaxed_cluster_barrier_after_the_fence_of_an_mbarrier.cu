// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void peer(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int row[128];
  int t = threadIdx.x, found;
  row[t] = in[128 * blockIdx.x + t]; /*2*/
  if (t == 0) mbarrier_init(shared_address(&barrier), 1);
  if (!FAULT) asm volatile("fence.acq_rel.cluster;" ::: "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::
                   : "memory");
  asm volatile("ld.shared::cluster.s32 %0, [%1];" /*1*/
               : "=r"(found)
               : "r"(at_rank(shared_address(row + 127 - t), blockIdx.x ^ 1))
               : "memory");
  if (t == 0) mbarrier_arrive_at_rank(shared_address(&barrier), blockIdx.x ^ 1);
  out[128 * blockIdx.x + t] = found;
  cluster_sync();
}
