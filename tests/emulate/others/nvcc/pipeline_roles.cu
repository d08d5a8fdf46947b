// cuda::pipeline with roles: one warp copies, three warps use what it copied.
#include <cooperative_groups.h>

#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int STAGES = 2, TILE = 96;

extern "C" __global__ void pipeline_roles(int* out, const int* in, int tiles) {
  __shared__ int ring[STAGES][TILE];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  auto block = cg::this_thread_block();
  bool produces = threadIdx.x >= TILE;
  auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipeline = cuda::make_pipeline(block, &state, role);
  int sum = 0, thread = threadIdx.x;
  for (int tile = 0; tile < tiles; tile++) {
    int* slot = ring[tile % STAGES];
    if (produces) {
#ifndef NO_ACQUIRE
      pipeline.producer_acquire();
#endif
      for (int i = thread - TILE; i < TILE; i += 32) {
        // reported: NO_ACQUIRE
        cuda::memcpy_async(slot + i, in + tile * TILE + i, sizeof(int), pipeline);
      }
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      sum += (tile + 1) * slot[TILE - 1 - thread];
      pipeline.consumer_release();
    }
  }
  if (!produces) out[thread] = sum;
  block.sync();
}
