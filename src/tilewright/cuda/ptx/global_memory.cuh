// Accesses to global memory with cache hints.
#pragma once
#include "types.cuh"

namespace tilewright {

// A word that nobody reads soon: its line is the first that L2 evicts. PTX ISA: "st", .cs in "cache
// operators".
__device__ __forceinline__ void store_streaming(uint32_t* address, uint32_t word) {
  asm volatile("st.global.cs.b32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(address)), "r"(word)
               : "memory");
}

}  // namespace tilewright
