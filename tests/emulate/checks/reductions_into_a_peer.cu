// kind=read-before-wait grid=4 cluster=4 block=32
#include "wrappers.cuh"
extern "C" __global__ void sum(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ __align__(128) int total[32];
  __shared__ u64 arrived;
  int t = threadIdx.x, rank = blockIdx.x;
  unsigned barrier = shared_address(&arrived);
  row[t] = in[32 * rank + t];
  total[t] = 0;
  if (t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 512);
  }
  proxy_fence();
  cluster_sync();
  if (t == 0) bulk_reduce_to_rank(total, row, 128, barrier, 0); /*2*/
  if (rank == 0) {
    if (!FAULT) mbarrier_wait(barrier, 0);
    out[t] = total[t]; /*1*/
    if (FAULT) mbarrier_wait(barrier, 0);
  }
  cluster_sync();
}
