// mma.m8n8k4: tensor cores of Volta (sm_70 and later). A warp is four quad pairs, and each of them
// multiplies its own matrices.
#pragma once
#include "types.cuh"

namespace tilewright {

// D (8, 8) += A (8, 4) B (4, 8) in each of four quad pairs, fp16 with fp32 accumulation. Quad pair
// q has lanes 4q to 4q + 3 (half 0) and the lanes 16 higher (half 1). With r = lane % 4, a lane
// holds four neighbors of A's column r and of B's row r, and pairs of columns in two rows of D:
//
//   a0, a1  rows 4 half ... + 3, column r     b0, b1  row r, columns 4 half ... + 3
//   d[i]    row 4 half + (i & 2) + (r & 1), column (i & 4) + (r & 2) + (i & 1)
//
// PTX ISA: "mma", matrix fragments for mma.m8n8k4 with .f16; A by columns and B by rows.
__device__ __forceinline__ void mma_m8n8k4(float (&d)[8], uint32_t a0, uint32_t a1, uint32_t b0,
                                           uint32_t b1) {
  asm("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
}

}  // namespace tilewright
