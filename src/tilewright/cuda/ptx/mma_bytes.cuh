// mma.sync of elements of 1 byte: int8 (sm_80 and later) and fp8 (sm_89 and later).
#pragma once
#include "types.cuh"

namespace tilewright {

// D (16, 8) += A (16, 32) B (32, 8), with sums in fp32, or of int8 in int32. A lane holds what it
// holds of m16n8k16 (mma.cuh), with four bytes along k in the place of two neighbors.
// PTX ISA: "mma", matrix fragments for mma.m16n8k32.
template <class InputA, class InputB, class Sum>
__device__ __forceinline__ void mma_m16n8k32(Sum (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1);

#define TILEWRIGHT_MMA_M16N8K32(InputA, InputB, Sum, types, constraint)                            \
  template <>                                                                                      \
  __device__ __forceinline__ void mma_m16n8k32<InputA, InputB>(Sum(&d)[4], const uint32_t (&a)[4], \
                                                               uint32_t b0, uint32_t b1) {         \
    asm("mma.sync.aligned.m16n8k32.row.col." types                                                 \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                         \
        : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                           \
  }

TILEWRIGHT_MMA_M16N8K32(fp8_e4m3, fp8_e4m3, float, "f32.e4m3.e4m3.f32", "+f")
TILEWRIGHT_MMA_M16N8K32(fp8_e4m3, fp8_e5m2, float, "f32.e4m3.e5m2.f32", "+f")
TILEWRIGHT_MMA_M16N8K32(fp8_e5m2, fp8_e4m3, float, "f32.e5m2.e4m3.f32", "+f")
TILEWRIGHT_MMA_M16N8K32(fp8_e5m2, fp8_e5m2, float, "f32.e5m2.e5m2.f32", "+f")
TILEWRIGHT_MMA_M16N8K32(int8, int8, int32_t, "s32.s8.s8.s32", "+r")

#undef TILEWRIGHT_MMA_M16N8K32

}  // namespace tilewright
