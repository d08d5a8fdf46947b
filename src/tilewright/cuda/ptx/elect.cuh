// One thread of a warp (sm_90).
#pragma once
#include "types.cuh"

namespace tilewright {

// Whether this thread is the one that the warp elects: always the same one. The compiler knows that
// one thread executes what depends on it, and keeps addresses in uniform registers. PTX ISA:
// "elect.sync".
__device__ __forceinline__ bool elected() {
  uint32_t result;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, one;\n"
      "}"
      : "=r"(result));
  return result;
}

}  // namespace tilewright
