// Addresses in the shared state space, and accesses by such addresses.
#pragma once
#include "types.cuh"

namespace tilewright {

// The shared-space address of an object in SMEM; most PTX instructions take this. PTX ISA: "cvta".
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Stores 16 bytes to an aligned address. PTX ISA: "st".
__device__ __forceinline__ void store_shared(uint32_t address, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, float4 values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w)
               : "memory");
}

// Loads 16 bytes from an aligned address. PTX ISA: "ld".
__device__ __forceinline__ void load_shared(uint32_t (&words)[4], uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_shared(float4& values, uint32_t address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(address)
               : "memory");
}

// Load one number, and two from an aligned address. PTX ISA: "ld".
__device__ __forceinline__ void load_shared(float& value, uint32_t address) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared(float2& values, uint32_t address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(values.x), "=f"(values.y)
               : "r"(address)
               : "memory");
}

}  // namespace tilewright
