// Reads of global memory that is read once.
#pragma once
#include "types.cuh"

namespace tilewright {

// 16 bytes from an aligned address, which nothing writes while the kernel runs; L1 keeps none of
// them. volatile keeps the load behind the wait for the launch before, which may have written them:
// the compiler reorders volatile assembly with none other. PTX ISA: "ld.global.nc".
__device__ __forceinline__ void load_once(uint32_t (&words)[4], const void* address) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(__cvta_generic_to_global(address)));
}

// Brings the sector of an address to L2. PTX ISA: "prefetch".
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(address)));
}

// Brings it to L1; nothing writes there while the kernel runs.
__device__ __forceinline__ void prefetch_to_l1(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" : : "l"(__cvta_generic_to_global(address)));
}

}  // namespace tilewright
