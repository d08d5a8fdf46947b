// The activations with which an epilogue may end. Each is a type with `apply`; a Config names one
// as Activation. Roundings are written out, so that no two Configs join operations differently.
#pragma once
#include "ptx/approximate.cuh"
#include "types.cuh"

namespace tilewright {

struct Identity {
  static __device__ __forceinline__ float apply(float x) { return x; }
};

struct Relu {
  static __device__ __forceinline__ float apply(float x) {
    return x < 0.0f ? 0.0f : x;  // NaN stays NaN
  }
};

// x Phi(x), with erfc(|x| / sqrt(2)) by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7),
// with its polynomial halved. This is about half of erff's code, and the code is repeated for every
// accumulator.
struct Gelu {
  static __device__ __forceinline__ float apply(float x) {
    const float t = reciprocal_approx(__fmaf_rn(0.23164189f, fabsf(x), 1.0f));
    float polynomial = __fmaf_rn(0.5307027145f, t, -0.7265760135f);
    polynomial = __fmaf_rn(polynomial, t, 0.7107068705f);
    polynomial = __fmaf_rn(polynomial, t, -0.142248368f);
    polynomial = __fmul_rn(__fmaf_rn(polynomial, t, 0.127414796f), t);
    const float square = __fmul_rn(x, x);
    const float half_erfc = __fmul_rn(polynomial, exp2_approx(__fmul_rn(-0.72134752f, square)));
    return __fmul_rn(x, x < 0.0f ? half_erfc : __fsub_rn(1.0f, half_erfc));
  }
};

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
struct GeluTanh {
  static __device__ __forceinline__ float apply(float x) {
    const float twice_u = __fmul_rn(x, __fmaf_rn(-0.10294324f, __fmul_rn(x, x), -2.3022082f));
    return __fmul_rn(x, reciprocal_approx(__fadd_rn(1.0f, exp2_approx(twice_u))));
  }
};

struct Silu {
  static __device__ __forceinline__ float apply(float x) {
    const float exponential = exp2_approx(__fmul_rn(-1.44269504f, x));
    return __fmul_rn(x, reciprocal_approx(__fadd_rn(1.0f, exponential)));
  }
};

}  // namespace tilewright
