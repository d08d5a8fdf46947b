// Accesses to global memory with cache hints.
#pragma once
#include "types.cuh"

namespace tilewright {

// Stores two words that are not read soon: L2 evicts their line first. PTX ISA: "st", .cs in "cache
// operators".
__device__ __forceinline__ void store_streaming(uint2* address, uint2 words) {
  asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(address)), "r"(words.x), "r"(words.y)
               : "memory");
}

}  // namespace tilewright
