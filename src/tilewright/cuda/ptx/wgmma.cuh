// The ordering of warpgroup matrix multiplications (sm_90a). The multiplication wgmma.mma_async is
// generated for the one shape and type that a Config needs: `struct Wgmma` stands before the
// kernel's header.
#pragma once
#include "types.cuh"

namespace tilewright {

// Orders accesses to accumulator registers before the wgmmas that follow. PTX ISA: "wgmma.fence".
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

// Closes the group of wgmmas since the last group. PTX ISA: "wgmma.commit_group".
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

// Waits until all but the newest `pending` groups are complete. PTX ISA: "wgmma.wait_group".
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}

// Called after the wait, keeps the compiler from reading the accumulators before the wait: it does
// not know that a wait changes them.
template <int count>
__device__ __forceinline__ void wgmma_results(float (&accumulators)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(accumulators[i]) : : "memory");
}

template <int count>
__device__ __forceinline__ void wgmma_results(int (&accumulators)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(accumulators[i]) : : "memory");
}

}  // namespace tilewright
