// kind=overwrite-before-wait grid=2 cluster=2 block=128
#include "wrappers.cuh"
extern "C" __global__ void send(int* out, const int* in) {
  __shared__ __align__(128) int row[128];
  __shared__ __align__(128) int received[128];
  __shared__ u64 arrived;
  int t = threadIdx.x, rank = blockIdx.x;
  unsigned barrier = shared_address(&arrived);
  row[t] = in[128 * rank + t];
  if (t == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 512);
  }
  proxy_fence();
  cluster_sync();
  if (t == 0) bulk_copy_to_rank(received, row, 512, barrier, 1 - rank); /*2*/
  mbarrier_wait(barrier, 0);
  if (!FAULT) cluster_sync();
  row[t] = received[t]; /*1*/
  __syncthreads();
  out[128 * rank + t] = row[127 - t];
  cluster_sync();
}
