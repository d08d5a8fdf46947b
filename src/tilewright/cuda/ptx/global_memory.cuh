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

// The same of 16, 4 or 2 bytes if they `exist`; else the registers keep what they have. No branch
// ends the run of loads that these are part of.
__device__ __forceinline__ void load_existing(uint32_t (&words)[4], const void* address,
                                              bool exist) {
  asm volatile(
      "{\n"
      ".reg .pred exist;\n"
      "setp.ne.b32 exist, %5, 0;\n"
      "@exist ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
      : "l"(__cvta_generic_to_global(address)), "r"(static_cast<int>(exist))
      : "memory");
}

__device__ __forceinline__ void load_existing(uint32_t& word, const void* address, bool exists) {
  asm volatile(
      "{\n"
      ".reg .pred exists;\n"
      "setp.ne.b32 exists, %2, 0;\n"
      "@exists ld.global.b32 %0, [%1];\n"
      "}"
      : "+r"(word)
      : "l"(__cvta_generic_to_global(address)), "r"(static_cast<int>(exists))
      : "memory");
}

__device__ __forceinline__ void load_existing(uint16_t& half, const void* address, bool exists) {
  asm volatile(
      "{\n"
      ".reg .pred exists;\n"
      "setp.ne.b32 exists, %2, 0;\n"
      "@exists ld.global.b16 %0, [%1];\n"
      "}"
      : "+h"(half)
      : "l"(__cvta_generic_to_global(address)), "r"(static_cast<int>(exists))
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
