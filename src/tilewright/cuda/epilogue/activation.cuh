// The activations with which an epilogue may end. Each is a type with `apply`; a Config names one
// as Activation.
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
    const float t = reciprocal_approx(1.0f + 0.23164189f * fabsf(x));
    const float polynomial =
        ((((0.5307027145f * t - 0.7265760135f) * t + 0.7107068705f) * t - 0.142248368f) * t +
         0.127414796f) *
        t;
    const float half_erfc = polynomial * exp2_approx(-0.72134752f * (x * x));
    return x * (x < 0.0f ? half_erfc : 1.0f - half_erfc);
  }
};

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
struct GeluTanh {
  static __device__ __forceinline__ float apply(float x) {
    return x * reciprocal_approx(1.0f + exp2_approx(x * (-2.3022082f - 0.10294324f * (x * x))));
  }
};

struct Silu {
  static __device__ __forceinline__ float apply(float x) {
    return x * reciprocal_approx(1.0f + exp2_approx(-1.44269504f * x));
  }
};

}  // namespace tilewright
