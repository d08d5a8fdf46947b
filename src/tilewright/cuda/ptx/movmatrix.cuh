// Transposition of fragments in the registers of a warp (sm_75).
#pragma once
#include "types.cuh"

namespace tilewright {

// The transpose of an 8x8 matrix of 2-byte elements, of which lane l holds (l / 4, l % 4 * 2) and
// its right neighbor. PTX ISA: "movmatrix".
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t word) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}

}  // namespace tilewright
