// Rung: padded rows for wmma.
//
// The kernel is wmma_smem's, with 16 unused bytes after each row in SMEM (`Config::padding` is 8
// elements). Each row then starts four banks after the row above it, and the eight rows of 16 bytes
// that a warp reads together cover all 32 banks: 1 pass.
//
//   banks, in fours     0 1 2 3 4 5 6 7
//                 r 0 | x . . . . . . .
//                 r 1 | . x . . . . . .
//                 ...
//                 r 7 | . . . . . . . x
#pragma once
#include "ladder/wmma_smem.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wmma_padded_kernel(const GemmParameters& parameters) {
  static_assert(Config::padding == 8);
  wmma_smem_kernel<Config>(parameters);
}

}  // namespace tilewright
