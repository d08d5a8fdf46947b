// kind=race grid=2 block=64 cluster=2
#include "wrappers.cuh"
extern "C" __global__ void count(int* out, const int* in) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  cluster_sync();
  unsigned place = at_rank(shared_address(&sum), 0);
  if (FAULT)
    asm volatile("red.relaxed.cta.shared::cluster.add.s32 [%0], 1;" /*1*/ /*2*/ ::"r"(place)
                 : "memory");
  else
    asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], 1;" ::"r"(place) : "memory");
  cluster_sync();
  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = sum + in[0];
  cluster_sync();
}
