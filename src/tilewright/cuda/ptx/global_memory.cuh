// Accesses to global memory, 8 and 16 bytes wide.
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

// 16 bytes from an aligned address. PTX ISA: "ld".
__device__ __forceinline__ void load_global(uint32_t (&words)[4], const void* address) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(__cvta_generic_to_global(address))
               : "memory");
}

// 16 bytes to an aligned address. PTX ISA: "st".
__device__ __forceinline__ void store_global(void* address, const uint32_t (&words)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(address)), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
               : "memory");
}

}  // namespace tilewright
