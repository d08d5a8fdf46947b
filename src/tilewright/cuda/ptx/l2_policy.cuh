// How long L2 keeps what a copy reads (sm_80).
#pragma once
#include "types.cuh"

namespace tilewright {

// Evicted before others: for what is read once. PTX ISA: "createpolicy".
__device__ __forceinline__ uint64_t evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}

}  // namespace tilewright
