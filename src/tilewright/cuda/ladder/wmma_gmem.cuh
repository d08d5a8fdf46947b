// Rung: tensor cores, fed straight from GMEM.
//
// One warp makes a 16x16 block of out. For every 16 of k it loads a fragment of A and one of B and
// multiplies them with one instruction: 4096 multiply-adds instead of 32. The CTA's eight warps
// take blocks in two rows of four:
//
//                       B  16 | b0 | b1 | b2 | b3 |
//                          k    .    .    .    .
//      A   16 k                 16   16   16   16
//        | a0 . .         16  | w0 | w1 | w2 | w3 |   out, 32x64
//        | a1 . .         16  | w4 | w5 | w6 | w7 |
//
// Four warps load the same block of A and two the same block of B; only L1 saves traffic.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "ladder/wmma_epilogue.cuh"
#include "parameters.cuh"
#include "ptx/wmma.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void wmma_gmem_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  __shared__ WmmaStaging staging[Config::threads / 32];

  const WarpBlock<Config> block(parameters);
  const int m = block.tile_m + block.m, n = block.tile_n + block.n;
  // wmma.load takes an int, and both strides fit one: the kernel refuses others.
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + n;
  WmmaAccumulator accumulator;
  for (int k = 0; k < parameters.k; k += 16) {
    WmmaFragment<Input> block_a, block_b;
    wmma_load_a(block_a, a + k, a_stride);
    wmma_load_b(block_b, b + k * b_stride, b_stride);
    wmma_multiply(accumulator, block_a, block_b);
  }

  store_block(accumulator, staging[threadIdx.x / 32], Epilogue<Config>(parameters, 0), m, n);
}

}  // namespace tilewright
