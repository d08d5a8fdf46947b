// Codes of 8 bits: four fp32 become the four bytes of a word, the first one the lowest. Each value
// is rounded to the nearest code, ties to even; what lies beyond the largest becomes the largest.
#pragma once
#include "types.cuh"

namespace tilewright {

// What is at least `overflow` in magnitude would round to more than the largest finite code, whose
// successor is Inf, or NaN where there is no Inf.
struct E4m3Codes {
  static constexpr int largest = 448;
  static constexpr float overflow = 464.00003f;  // 464 is a tie, and the even neighbor is 448
  static constexpr bool floating = true;

  // PTX ISA: "cvt".
  static __device__ __forceinline__ uint32_t pair(float low, float high) {
    uint16_t result;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    return result;
  }
};

struct E5m2Codes {
  static constexpr int largest = 57344;
  static constexpr float overflow = 61440.0f;  // a tie, and the even neighbor is Inf
  static constexpr bool floating = true;

  static __device__ __forceinline__ uint32_t pair(float low, float high) {
    uint16_t result;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    return result;
  }
};

// Saturates at -128 and 127; NaN becomes 0.
struct Int8Codes {
  static constexpr int largest = 127;
  static constexpr bool floating = false;

  // PTX ISA: "cvt", "cvt.pack".
  static __device__ __forceinline__ uint32_t above(float low, float high, uint32_t rest) {
    uint32_t result;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(__float2int_rn(high)), "r"(__float2int_rn(low)), "r"(rest));
    return result;
  }
};

// The codes of four values. Without `saturate`, values that overflow get the successor of the
// largest code.
template <class Codes, bool saturate>
__device__ __forceinline__ uint32_t codes_of(float a, float b, float c, float d) {
  if constexpr (Codes::floating) {
    uint32_t word = Codes::pair(a, b) | Codes::pair(c, d) << 16;
    if constexpr (!saturate) {
      word += fabsf(a) >= Codes::overflow ? 1u : 0u;
      word += fabsf(b) >= Codes::overflow ? 1u << 8 : 0u;
      word += fabsf(c) >= Codes::overflow ? 1u << 16 : 0u;
      word += fabsf(d) >= Codes::overflow ? 1u << 24 : 0u;
    }
    return word;
  } else {
    return Codes::above(a, b, Codes::above(c, d, 0));
  }
}

// The same of results, one or two.
template <>
__device__ __forceinline__ uint32_t pack<fp8_e4m3>(float low, float high) {
  return E4m3Codes::pair(low, high);
}

template <>
__device__ __forceinline__ uint32_t pack<fp8_e5m2>(float low, float high) {
  return E5m2Codes::pair(low, high);
}

template <>
__device__ __forceinline__ fp8_e4m3 from_float<fp8_e4m3>(float value) {
  return {static_cast<uint8_t>(pack<fp8_e4m3>(value, 0.0f))};
}

template <>
__device__ __forceinline__ fp8_e5m2 from_float<fp8_e5m2>(float value) {
  return {static_cast<uint8_t>(pack<fp8_e5m2>(value, 0.0f))};
}

}  // namespace tilewright
