// Stores of fragments from the registers of a warp to SMEM (sm_90).
#pragma once
#include "types.cuh"

namespace tilewright {

// Four 8x8 matrices of 2-byte elements. Lane i gives the address of row i % 8 of matrix i / 8. Of
// each matrix it holds columns i % 4 * 2 and the next in row i / 4. PTX ISA: "stmatrix".
__device__ __forceinline__ void stmatrix_x4(uint32_t address, const uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// The same of two matrices, by the addresses of lanes 0 to 15.
__device__ __forceinline__ void stmatrix_x2(uint32_t address, const uint32_t (&words)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
               :
               : "r"(address), "r"(words[0]), "r"(words[1])
               : "memory");
}

}  // namespace tilewright
