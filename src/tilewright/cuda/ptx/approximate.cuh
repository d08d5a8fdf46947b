// Functions of one instruction each, with relative errors of a few times 1e-7. Subnormal operands
// and results count as 0.
#pragma once

namespace tilewright {

// 2^x. PTX ISA: "ex2".
__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 1 / x. PTX ISA: "rcp".
__device__ __forceinline__ float reciprocal_approx(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace tilewright
