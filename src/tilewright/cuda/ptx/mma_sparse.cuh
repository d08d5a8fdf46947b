// mma.sp: sparse tensor cores, used by one warp (sm_80 and later). Two of four elements of A are 0.
#pragma once
#include "types.cuh"

namespace tilewright {

// D (16, 8) += A (16, 32) B (32, 8), with fp32 accumulation. A keeps two of each four neighbors
// along k. `a` is the fragment of the remaining (16, 16) matrix, as in mma_m16n8k16, so a word has
// the two kept elements of one group of four. b[i] is (2t + 8i, g) and the element below it.
// `places` is read from lanes 0 and 1 of each four. It has 4 bits for each group: the place of the
// first kept element, then that of the second, which is higher. Lane 0 has groups 0 to 3, those of
// row g in the low half and those of row g + 8 in the high half; lane 1 has groups 4 to 7. PTX ISA:
// "mma.sp::ordered_metadata", matrix fragments for sparse mma.m16n8k32.
template <class Input>
__device__ __forceinline__ void mma_sparse_m16n8k32(float (&d)[4], const uint32_t (&a)[4],
                                                    const uint32_t (&b)[4], uint32_t places);

template <>
__device__ __forceinline__ void mma_sparse_m16n8k32<bf16>(float (&d)[4], const uint32_t (&a)[4],
                                                          const uint32_t (&b)[4], uint32_t places) {
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(places));
}

template <>
__device__ __forceinline__ void mma_sparse_m16n8k32<fp16>(float (&d)[4], const uint32_t (&a)[4],
                                                          const uint32_t (&b)[4], uint32_t places) {
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(places));
}

}  // namespace tilewright
