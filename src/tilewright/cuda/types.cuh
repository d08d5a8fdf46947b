// Element types and fixed-width integers, written out here because NVRTC ships no headers.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

namespace tilewright {

struct bf16 {
  uint16_t bits;
};

struct fp16 {
  uint16_t bits;
};

// Numbers of 8 bits, which tensor cores multiply.
struct fp8_e4m3 {
  uint8_t bits;
};

struct fp8_e5m2 {
  uint8_t bits;
};

struct int8 {
  uint8_t bits;
};

template <class First, class Second>
constexpr bool same = false;

template <class Type>
constexpr bool same<Type, Type> = true;

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ float to_float(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float to_float(fp16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}

// Rounds to nearest even.
template <class T>
__device__ __forceinline__ T from_float(float value);

template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}

template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

template <>
__device__ __forceinline__ fp16 from_float<fp16>(float value) {
  fp16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

// Two neighbors in one register; `low` has the lower address.
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high);

template <>
__device__ __forceinline__ uint32_t pack<bf16>(float low, float high) {
  uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

template <>
__device__ __forceinline__ uint32_t pack<fp16>(float low, float high) {
  uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

// Two neighbors in registers, for one access to memory.
template <class Element>
struct PairWord {
  using type = uint32_t;
};

template <>
struct PairWord<float> {
  using type = float2;
};

template <>
struct PairWord<int32_t> {
  using type = int2;
};

template <>
struct PairWord<fp8_e4m3> {
  using type = uint16_t;
};

template <>
struct PairWord<fp8_e5m2> {
  using type = uint16_t;
};

template <class Element>
__device__ __forceinline__ typename PairWord<Element>::type word_of(float first, float second) {
  if constexpr (sizeof(Element) <= 2) {
    return pack<Element>(first, second);
  } else {
    return make_float2(first, second);
  }
}

// Whole numbers are stored as they are.
template <class Element>
__device__ __forceinline__ int2 word_of(int32_t first, int32_t second) {
  return make_int2(first, second);
}

// An element of a value: rounded, or a whole number as it is.
template <class Element>
__device__ __forceinline__ Element element_of(float value) {
  return from_float<Element>(value);
}

template <class Element>
__device__ __forceinline__ int32_t element_of(int32_t value) {
  return value;
}

__device__ __forceinline__ constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

__device__ __forceinline__ constexpr int minimum(int a, int b) { return a < b ? a : b; }

__device__ __forceinline__ constexpr int maximum(int a, int b) { return a > b ? a : b; }

}  // namespace tilewright
