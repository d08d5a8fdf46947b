// mma.sync: tensor cores, used by one warp (sm_80 and later).
#pragma once
#include "types.cuh"

namespace tilewright {

// D (16, 8) += A (16, 16) B (16, 8), with fp32 accumulation. With g = lane / 4 and t = lane % 4, a
// lane holds pairs of neighbors. The first of each pair is at
//
//   a[0]  (g, 2t)      a[1]  (g + 8, 2t)      a[2]  (g, 2t + 8)      a[3]  (g + 8, 2t + 8)
//   b0    (2t, g)      b1    (2t + 8, g)
//   d[0]  (g, 2t)      d[2]  (g + 8, 2t)
//
// and the second is to its right (a, d) or below it (b).
// PTX ISA: "mma", matrix fragments for mma.m16n8k16.
template <class Input>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<bf16>(float (&d)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<fp16>(float (&d)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for fp16 with fp16 accumulation. A register of D holds a pair: d[0] has (g, 2t) and its
// right neighbor, d[1] has the same columns of row g + 8.
__device__ __forceinline__ void mma_m16n8k16(uint32_t (&d)[2], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tilewright
