// Stores of one number to SMEM.
#pragma once
#include "types.cuh"

namespace tilewright {

// To a shared-space address. PTX ISA: "st".
__device__ __forceinline__ void store_shared(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" : : "r"(address), "f"(value) : "memory");
}

}  // namespace tilewright
