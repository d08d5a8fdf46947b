// cuda::pipeline with three stages: each thread copies its part of a tile ahead of time and uses
// others' parts.
#include <cooperative_groups.h>

#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int STAGES = 3, TILE = 128;

extern "C" __global__ void pipeline_stages(int* out, const int* in, int tiles) {
  __shared__ alignas(16) int ring[STAGES][TILE];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int tile = 0, ahead = 0; tile < tiles; tile++) {
    for (; ahead < tiles && ahead < tile + STAGES; ahead++) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, ring[ahead % STAGES], in + ahead * TILE, sizeof(ring[0]), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum += (tile + 1) * ring[tile % STAGES][TILE - 1 - threadIdx.x];
    pipeline.consumer_release();
  }
  out[threadIdx.x] = sum;  // reported: DESTROYED_EARLY
#ifndef DESTROYED_EARLY
  block.sync();  // the destructor of the pipeline orders warps, and not the lanes of one
#endif
}
