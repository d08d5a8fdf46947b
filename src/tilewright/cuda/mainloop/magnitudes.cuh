// The largest magnitudes of elements as they lie in registers: a word has one fp32, or two elements
// of 16 bits, of which each has its own maximum. NaN never counts.
#pragma once
#include "types.cuh"

namespace tilewright {

template <class Input>
struct Magnitudes;

template <>
struct Magnitudes<float> {
  static constexpr int in_word = 1;
  static constexpr uint32_t mask = 0x7FFFFFFF;
  static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
  static __device__ __forceinline__ uint32_t finite(uint32_t word) {
    return word < 0x7F800000 ? word : 0;
  }
  static __device__ __forceinline__ float value(uint32_t word, int) {
    return __uint_as_float(word);
  }
};

template <class Input, uint32_t infinite>
struct HalfMagnitudes {
  static constexpr int in_word = 2;
  static constexpr uint32_t mask = 0x7FFF7FFF;
  static __device__ __forceinline__ uint32_t finite(uint32_t word) {
    const uint32_t low = word & 0xFFFF, high = word >> 16;
    return (low < infinite ? low : 0) | (high < infinite ? high << 16 : 0);
  }
  static __device__ __forceinline__ float value(uint32_t word, int element) {
    return to_float(Input{static_cast<uint16_t>(word >> element * 16)});
  }
};

template <>
struct Magnitudes<bf16> : HalfMagnitudes<bf16, 0x7F80> {
  // PTX ISA: "max".
  static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
};

template <>
struct Magnitudes<fp16> : HalfMagnitudes<fp16, 0x7C00> {
  static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
};

// The largest of a word.
template <class Input>
__device__ __forceinline__ float largest_of_word(uint32_t word) {
  using Magnitude = Magnitudes<Input>;
  return fmaxf(Magnitude::value(word, 0), Magnitude::value(word, Magnitude::in_word - 1));
}

// The largest over the lanes that differ in the bits from `first` up to below `end`.
template <class Input, int first, int end>
__device__ __forceinline__ uint32_t largest_of_lanes(uint32_t word) {
#pragma unroll
  for (int bit = first; bit < end; bit *= 2) {
    word = Magnitudes<Input>::larger(word, __shfl_xor_sync(0xFFFFFFFF, word, bit));
  }
  return word;
}

// Adds a magnitude to a maximum that all CTAs share. PTX ISA: "red".
__device__ __forceinline__ void raise(uint32_t* maximum, float magnitude) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(maximum)), "r"(__float_as_uint(magnitude))
               : "memory");
}

}  // namespace tilewright
