// The activations with which an epilogue may end. Each is a type with `apply`; a Config names one
// as Activation. Roundings are written out, so that no two Configs join operations differently.
// Some take the type of the results, since fewer instructions are enough for a short one.
#pragma once
#include "ptx/approximate.cuh"
#include "ptx/maximum.cuh"
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

// coefficient + x (...), from the constant one on.
__device__ __forceinline__ float polynomial(float, float coefficient) { return coefficient; }

template <class... Higher>
__device__ __forceinline__ float polynomial(float x, float coefficient, Higher... higher) {
  return __fmaf_rn(x, polynomial(x, higher...), coefficient);
}

// x P(x) = max(x, 0) - |x| P(-|x|), for a P with P(-x) = 1 - P(x). The logarithm of P(-|x|) is so
// smooth that it is a short polynomial of -|x|, with one MUFU instruction where a quotient and an
// exponential are two. The error is below 2^-20 of the argument. From the clamp on, 2^x is 0.
template <class... Coefficients>
__device__ __forceinline__ float weighted(float x, Coefficients... logarithm) {
  const float negative = fmaxf(-fabsf(x), -16.0f);
  const float tail = exp2_approx(polynomial(negative, logarithm...));
  return __fmaf_rn(negative, tail, maximum_or_nan(x, 0.0f));
}

// x Phi(x), with erfc(|x| / sqrt(2)) by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7),
// with its polynomial halved. This is about half of erff's code, and the code is repeated for every
// accumulator.
template <class Output>
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

// These polynomials and those of GeluTanh have the least relative error that their degree allows if
// 2^-20 of the argument does not count; expression/evaluation.py states it.
template <>
struct Gelu<bf16> {
  static __device__ __forceinline__ float apply(float x) {
    return weighted(x, -1.00086987f, 1.13959444f, -0.483477026f, 0.0348670259f, 0.00220530992f);
  }
};

template <>
struct Gelu<fp16> {
  static __device__ __forceinline__ float apply(float x) {
    return weighted(x, -1.00000191f, 1.15105879f, -0.459368229f, 0.0524222218f, 0.0073298309f,
                    0.000509304577f);
  }
};

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class Output>
struct GeluTanh {
  static __device__ __forceinline__ float apply(float x) {
    const float twice_u = __fmul_rn(x, __fmaf_rn(-0.10294324f, __fmul_rn(x, x), -2.3022082f));
    return __fmul_rn(x, reciprocal_approx(__fadd_rn(1.0f, exp2_approx(twice_u))));
  }
};

template <>
struct GeluTanh<bf16> {
  static __device__ __forceinline__ float apply(float x) {
    return weighted(x, -1.00097728f, 1.13421321f, -0.505479574f, 0.0088096438f, -0.00614628894f);
  }
};

template <>
struct GeluTanh<fp16> {
  static __device__ __forceinline__ float apply(float x) {
    return weighted(x, -1.00011098f, 1.14892101f, -0.465757221f, 0.0460231565f, 0.00794396084f,
                    0.00184838299f);
  }
};

struct Silu {
  static __device__ __forceinline__ float apply(float x) {
    const float exponential = exp2_approx(__fmul_rn(-1.44269504f, x));
    return __fmul_rn(x, reciprocal_approx(__fadd_rn(1.0f, exponential)));
  }
};

}  // namespace tilewright
