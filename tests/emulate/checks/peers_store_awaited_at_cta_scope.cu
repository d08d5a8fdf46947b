// kind=read-before-wait block=128 cluster=2 grid=2
#include "wrappers.cuh"
extern "C" __global__ void send(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int row[128];
  int t = threadIdx.x, peer = blockIdx.x ^ 1;
  unsigned b = shared_address(&barrier);
  if (t == 0) {
    mbarrier_init(b, 1);
    mbarrier_expect(b, 512);
  }
  cluster_sync();
  send_to_rank(shared_address(row + t), b, peer, in[128 * blockIdx.x + t]); /*2*/
  if (FAULT) {
    mbarrier_wait(b, 0);
  } else {
    mbarrier_wait_for_cluster(b, 0);
  }
  out[128 * blockIdx.x + t] = row[127 - t]; /*1*/
}
