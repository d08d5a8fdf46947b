// What the rungs on wgmma have in common: where tiles of A and B lie in SMEM, how a warpgroup
// multiplies them, and where its accumulators belong in out.
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "layout/descriptor.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
using TileA = WgmmaOperand<false, Config::tile_m, Config::tile_k>;
template <class Config>
using TileB = WgmmaOperand<false, Config::tile_n, Config::tile_k>;

// Room for one k-block, as TMA writes it and wgmma reads it: rows of 128 bytes, swizzled.
template <class Config>
struct Slot {
  alignas(1024) uint8_t a[TileA<Config>::bytes];  // (tile_m, tile_k)
  alignas(1024) uint8_t b[TileB<Config>::bytes];  // (tile_n, tile_k)
};

// 64 rows of the tile and all its columns: the accumulators of one thread of a warpgroup.
template <class Config>
using Accumulators = float[Config::tile_n / 2];

// The accumulators of 64 rows of the tile, from row 64 * row_block on, += A B over one k-block: a
// wgmma for each 16 of k. The first one overwrites them unless `accumulate`.
template <class Config>
__device__ __forceinline__ void multiply(Accumulators<Config>& accumulators,
                                         const Slot<Config>& slot, int row_block,
                                         bool accumulate = true) {
  using A = TileA<Config>;
  using B = TileB<Config>;
  const uint64_t a = A::descriptor(shared_address(slot.a)) + row_block * A::block_step;
  const uint64_t b = B::descriptor(shared_address(slot.b));
#pragma unroll
  for (int k16 = 0; k16 < Config::tile_k / 16; ++k16) {
    Wgmma::mma(accumulators, a + k16 * A::k16_step, b + k16 * B::k16_step, accumulate || k16 > 0);
  }
}

// Calls body(pair, row, column) for each pair of neighbours that a lane holds: accumulators 2 pair
// and 2 pair + 1 belong to columns `column` and `column` + 1 of row `row` of the 64 of its
// warpgroup (PTX ISA: "wgmma: register fragments").
//
//                  column  0 1    2 3    4 5    6 7      8 9 ...
//   warp 0, row 0  lanes     0      1      2      3        0        pair 0 of lane 0, pair 2 ...
//           row 1            4      5      6      7        4
//           ...
//           row 8            0      1      2      3        0        pair 1 of lane 0, pair 3 ...
//   warp 1, row 16           0 ...
template <class Config, class Body>
__device__ __forceinline__ void for_each_pair(Body body) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int block = 0; block < Config::tile_n / 8; ++block) {
      body(block * 2 + half, warp * 16 + half * 8 + lane / 4, block * 8 + lane % 4 * 2);
    }
  }
}

// From registers to the 64 rows of out from (row, column) on.
template <class Config>
__device__ __forceinline__ void store(const GemmParameters& parameters,
                                      const Accumulators<Config>& accumulators, int row,
                                      int column) {
  const Epilogue<Config> epilogue(parameters, 0);
  for_each_pair<Config>([&](int pair, int pair_row, int pair_column) {
    __builtin_assume(column + pair_column + 1 < parameters.n);  // the tile is whole
    epilogue.at_row(row + pair_row)
        .store_pair(accumulators[2 * pair], accumulators[2 * pair + 1], column + pair_column);
  });
}

}  // namespace tilewright
