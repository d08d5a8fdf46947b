// kind=cluster-exit grid=2 cluster=2 block=32
#include "wrappers.cuh"
extern "C" __global__ void send(int* out, const int* in) {
  __shared__ __align__(128) int row[32];
  __shared__ __align__(128) int received[32];
  __shared__ u64 arrived;
  int t = threadIdx.x, rank = blockIdx.x;
  unsigned barrier = shared_address(&arrived);
  row[t] = in[t];
  if (t == 0 && rank == 1) {
    mbarrier_init(barrier, 1);
    mbarrier_expect(barrier, 128);
  }
  proxy_fence();
  cluster_sync();
  if (rank == 0 && t == 0) bulk_copy_to_rank(received, row, 128, barrier, 1); /*2*/
  if (rank == 1) {
    mbarrier_wait(barrier, 0);
    out[t] = received[t];
  }
  if (!FAULT) cluster_sync();
} /*1*/
