// kind=race grid=2 block=128 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void send(int* out, const int* in) {
  __shared__ u64 barrier;
  __shared__ int row[128];
  int t = threadIdx.x, peer = blockIdx.x ^ 1;
  unsigned b = shared_address(&barrier);
  row[t] = in[t];
  if (t == 0) {
    mbarrier_init(b, 1);
    mbarrier_expect(b, 512);
  }
  cluster_sync();
  int found = row[t ^ 1]; /*2*/
  if (!FAULT) cluster_sync();
  send_to_rank(shared_address(row + t), b, peer, in[128 * blockIdx.x + t]); /*1*/
  mbarrier_wait_for_cluster(b, 0);
  out[128 * blockIdx.x + t] = found + row[127 - t];
  cluster_sync();
}
