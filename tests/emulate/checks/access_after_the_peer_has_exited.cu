// kind=cluster-exit grid=2 block=32 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void late(int* out, const int* in) {
  __shared__ int row[32];
  int t = threadIdx.x;
  row[t] = in[t];
  cluster_sync();
  if (FAULT && blockIdx.x == 1) asm volatile("exit;"); /*1*/
  if (blockIdx.x == 0) {
    asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], %1;" ::"r"(
                     at_rank(shared_address(row + t), 1)),
                 "r"(t)
                 : "memory"); /*2*/
  }
  cluster_sync();
  out[32 * blockIdx.x + t] = row[t];
}
