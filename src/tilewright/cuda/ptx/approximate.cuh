// Functions of one instruction each, with relative errors of a few times 1e-7. Subnormal operands
// and results count as 0 where the instruction says ftz.
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

// The square root. PTX ISA: "sqrt".
__device__ __forceinline__ float sqrt_approx(float x) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// x / y over the whole range, in a fraction of the code of x / y. PTX ISA: "div".
__device__ __forceinline__ float div_full(float x, float y) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

}  // namespace tilewright
