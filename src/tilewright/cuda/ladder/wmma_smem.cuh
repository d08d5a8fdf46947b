// Rung: tiles in SMEM for wmma.
//
// Eight warps share a (128, 64) tile of A and a (64, 128) tile of B. Each makes a (64, 32) block of
// out with 4x2 accumulators, so each loaded fragment is multiplied two or four times.
//
//                     B  64  | 32 | 32 | 32 | 32 |
//      A   64                +----+----+----+----+
//        |    |          64  | w0 | w1 | w2 | w3 |    out, 128x128
//        |    |          64  | w4 | w5 | w6 | w7 |
//
// Rows lie in SMEM as in GMEM, one after the other: 128 bytes each for A and 256 for B. The 32
// banks serve 128 bytes at once. So the eight rows of 16 bytes that a warp reads together all lie
// in the same four banks and wait for each other: 8 passes instead of 1.
//
//   banks, in fours     0 1 2 3 4 5 6 7
//                 r 0 | x . . . . . . .
//                 r 1 | x . . . . . . .
//                 ...
//                 r 7 | x . . . . . . .
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "ladder/wmma_epilogue.cuh"
#include "layout/padding.cuh"
#include "parameters.cuh"
#include "ptx/wmma.cuh"
#include "types.cuh"

namespace tilewright {

// The fragments of A and B that a warp multiplies for 16 of k.
template <class Config>
struct WmmaFragments {
  static constexpr int blocks_m = Config::warp_m / 16, blocks_n = Config::warp_n / 16;
  WmmaFragment<typename Config::Input> a[blocks_m], b[blocks_n];

  template <class LayoutA, class LayoutB>
  __device__ __forceinline__ void load(uint32_t tile_a, uint32_t tile_b, int m, int n, int k) {
#pragma unroll
    for (int i = 0; i < blocks_m; ++i) {
      wmma_load_a(a[i], tile_a + LayoutA::offset(m + i * 16, k), LayoutA::stride);
    }
#pragma unroll
    for (int j = 0; j < blocks_n; ++j) {
      wmma_load_b(b[j], tile_b + LayoutB::offset(k, n + j * 16), LayoutB::stride);
    }
  }
};

template <class Config>
__device__ __forceinline__ void wmma_smem_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  using Fragments = WmmaFragments<Config>;
  using LayoutA = PaddedRows<Config::tile_k, Config::padding>;
  using LayoutB = PaddedRows<Config::tile_n, Config::padding>;
  __shared__ alignas(32) Input tile_a[Config::tile_m * LayoutA::stride];
  __shared__ alignas(32) Input tile_b[Config::tile_k * LayoutB::stride];
  __shared__ WmmaStaging staging[Config::threads / 32];

  const WarpBlock<Config> block(parameters);
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + block.tile_m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + block.tile_n;
  const uint32_t smem_a = shared_address(tile_a), smem_b = shared_address(tile_b);

  WmmaAccumulator accumulators[Fragments::blocks_m][Fragments::blocks_n];
#pragma unroll 1
  for (int k_tile = 0; k_tile < parameters.k; k_tile += Config::tile_k) {
    copy_tile<LayoutA, Config::tile_m, Config::tile_k, Config::threads>(smem_a, a, a_stride);
    copy_tile<LayoutB, Config::tile_k, Config::tile_n, Config::threads>(smem_b, b, b_stride);
    a += Config::tile_k;
    b += Config::tile_k * b_stride;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += 16) {
      Fragments fragments;
      fragments.template load<LayoutA, LayoutB>(smem_a, smem_b, block.m, block.n, k);
#pragma unroll
      for (int i = 0; i < Fragments::blocks_m; ++i) {
#pragma unroll
        for (int j = 0; j < Fragments::blocks_n; ++j) {
          wmma_multiply(accumulators[i][j], fragments.a[i], fragments.b[j]);
        }
      }
    }
    __syncthreads();  // all threads have read the tiles; the next ones may overwrite them
  }

  const Epilogue<Config> epilogue(parameters, 0);
#pragma unroll
  for (int i = 0; i < Fragments::blocks_m; ++i) {
#pragma unroll
    for (int j = 0; j < Fragments::blocks_n; ++j) {
      if (i + j > 0) __syncwarp();  // the last block has left the staging
      store_block(accumulators[i][j], staging[threadIdx.x / 32], epilogue,
                  block.tile_m + block.m + i * 16, block.tile_n + block.n + j * 16);
    }
  }
}

}  // namespace tilewright
