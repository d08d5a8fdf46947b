// Functions of one or a few instructions, with relative errors of a few times 1e-7 over the whole
// range of fp32, subnormal numbers included.
#pragma once

namespace tilewright {

// The square root. PTX ISA: "sqrt".
__device__ __forceinline__ float sqrt_approx(float x) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// x / y, in a fraction of the code of the operator. PTX ISA: "div".
__device__ __forceinline__ float div_full(float x, float y) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

}  // namespace tilewright
