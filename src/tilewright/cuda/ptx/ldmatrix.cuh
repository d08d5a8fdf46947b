// Loads of matrix fragments from SMEM into registers, by a whole warp.
#pragma once
#include "types.cuh"

namespace tilewright {

// Four 8x8 matrices of 2-byte elements. Lane l gives the address of row l % 8 of matrix l / 8 (16
// bytes, aligned). In words[i] it receives element (l / 4, 2 * (l % 4)) of matrix i and the right
// neighbor, or with `transpose` those of the matrix's transpose. PTX ISA: "ldmatrix".
template <bool transpose>
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&words)[4], uint32_t row_address) {
  if constexpr (transpose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_address)
                 : "memory");
  }
}

// The transposes of two 8x8 matrices; lanes 0 to 15 give the addresses.
__device__ __forceinline__ void ldmatrix_x2_transposed(uint32_t (&words)[2], uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(row_address)
               : "memory");
}

}  // namespace tilewright
