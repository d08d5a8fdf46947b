// OrderedSequenceBarrier: two warpgroups take turns, so that what they append stays in order.
#include <cutlass/pipeline/pipeline.hpp>

using Turns = cutlass::OrderedSequenceBarrier<1, 2>;
using cutlass::arch::NamedBarrier;

extern "C" __global__ void ordered_sums(int* out, const int* in, int rounds) {
  __shared__ alignas(8) unsigned char memory[sizeof(Turns::SharedStorage)];
  __shared__ int sums[2][4], log[64], count;
  int group = threadIdx.x / 128;
  Turns::Params params;
  params.group_id = group;
  params.group_size = 128;
  Turns turns(*reinterpret_cast<Turns::SharedStorage*>(memory), params);
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    int value = __reduce_add_sync(~0u, in[(2 * round + group) * 128 + threadIdx.x % 128]);
    if (threadIdx.x % 32 == 0) sums[group][threadIdx.x / 32 % 4] = value;
    NamedBarrier::sync(128, group);
#ifndef NO_TURN
    turns.wait();
#endif
    if (threadIdx.x % 128 == 0) {
      const int* four = sums[group];
      log[count] = four[0] + four[1] + four[2] + four[3];  // reported: NO_TURN
      count++;
    }
    turns.arrive();
    NamedBarrier::sync(128, group);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * rounds; i += 256) out[i] = log[i];
}
