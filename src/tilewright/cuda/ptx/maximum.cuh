#pragma once

namespace tilewright {

// The larger of two numbers, and NaN if one is. PTX ISA: "max".
__device__ __forceinline__ float maximum_or_nan(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

}  // namespace tilewright
