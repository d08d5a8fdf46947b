// Rung: tiles in SMEM for mma.sync.
//
// Four warps share a (128, 32) tile of A and a (32, 128) tile of B. Each makes a (64, 64) block of
// out: for every 16 of k it reads 4 + 4 fragments with ldmatrix and issues 32 products.
//
//                     B  32  |  64  |  64  |
//      A   32                +------+------+
//        |    |          64  |  w0  |  w1  |    out, 128x128
//        |    |          64  |  w2  |  w3  |
//
// Rows lie in SMEM one after the other; they have 64 bytes for A and 256 for B. ldmatrix reads
// eight rows of 16 bytes at once. In A, every second row starts in the same bank (4 passes); in B,
// every row does (8 passes).
//
//   banks, in fours  A  0 1 2 3 4 5 6 7      B  0 1 2 3 4 5 6 7
//                 r 0 | x . . . . . . .    r 0 | x . . . . . . .
//                 r 1 | . . . . x . . .    r 1 | x . . . . . . .
//                 r 2 | x . . . . . . .    r 2 | x . . . . . . .
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "layout/padding.cuh"
#include "mainloop/mma_fragments.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void mma_smem_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  using LayoutA = PaddedRows<Config::tile_k, 0>;
  using LayoutB = PaddedRows<Config::tile_n, 0>;
  __shared__ alignas(128) Input tile_a[Config::tile_m * Config::tile_k];
  __shared__ alignas(128) Input tile_b[Config::tile_k * Config::tile_n];
  const uint32_t smem_a = shared_address(tile_a), smem_b = shared_address(tile_b);

  const WarpBlock<Config> block(parameters);
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + block.tile_m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + block.tile_n;

  Accumulators<Config> accumulators;
#pragma unroll 1
  for (int k_tile = 0; k_tile < parameters.k; k_tile += Config::tile_k) {
    copy_tile<LayoutA, Config::tile_m, Config::tile_k, Config::threads>(smem_a, a, a_stride);
    copy_tile<LayoutB, Config::tile_k, Config::tile_n, Config::threads>(smem_b, b, b_stride);
    a += Config::tile_k;
    b += Config::tile_k * b_stride;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += 16) {
      Fragments<Config, LayoutA, LayoutB> fragments;
      fragments.load(smem_a, smem_b, block.m, block.n, k);
      accumulators.multiply(fragments);
    }
    __syncthreads();  // all threads have read the tiles; the next ones may overwrite them
  }

  accumulators.store(Epilogue<Config>(parameters, 0), block.tile_m + block.m,
                     block.tile_n + block.n);
}

}  // namespace tilewright
