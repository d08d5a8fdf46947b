// The rungs on wgmma share this: the layout of tiles of A and B in SMEM, their multiplication by a
// warpgroup, and the place of its accumulators in out.
#pragma once
#include "epilogue/epilogue.cuh"
#include "layout/descriptor.cuh"
#include "parameters.cuh"
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
using WgmmaAccumulators = float[Config::tile_n / 2];

// The accumulators of 64 rows of the tile, from row 64 * row_block on, += A B over one k-block: a
// wgmma for each 16 of k. The first one overwrites them unless `accumulate`.
template <class Config>
__device__ __forceinline__ void multiply(WgmmaAccumulators<Config>& accumulators,
                                         const Slot<Config>& slot, int row_block,
                                         bool accumulate = true) {
  using A = TileA<Config>;
  using B = TileB<Config>;
  const uint64_t a = A::descriptor(shared_address(slot.a)) + row_block * A::block_step;
  const uint64_t b = B::descriptor(shared_address(slot.b));
#pragma unroll
  for (int k16 = 0; k16 < Config::tile_k / 16; ++k16) {
    Wgmma::mma(accumulators, a + k16 * A::k_step, b + k16 * B::k_step, accumulate || k16 > 0);
  }
}

// Calls body(pair, row, column, word) for each pair of neighbors that a lane holds: accumulators
// 2 pair and 2 pair + 1, which belong to columns `column` and `column` + 1 of row `row` of the 64
// (PTX ISA: "wgmma: register fragments"). The word holds both, finished. The 64 rows begin at
// (out_row, out_column) of out.
//
//                  column  0 1    2 3    4 5    6 7      8 9 ...
//   warp 0, row 0  lanes     0      1      2      3        0        pair 0 of lane 0, pair 2 ...
//           row 1            4      5      6      7        4
//           ...
//           row 8            0      1      2      3        0        pair 1 of lane 0, pair 3 ...
//   warp 1, row 16           0 ...
template <class Config, class Body>
__device__ __forceinline__ void for_each_pair(const GemmParameters& parameters,
                                              const WgmmaAccumulators<Config>& accumulators,
                                              int out_row, int out_column, Body body) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const Epilogue<Config> epilogue(parameters, 0);
  int64_t first_column = lane % 4 * 2;
  asm("" : "+l"(first_column));  // hides the value: else each block takes an "or", not an offset
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp * 16 + half * 8 + lane / 4;
    const EpilogueRow<Config> finished = epilogue.at_row(out_row + row);
#pragma unroll
    for (int block = 0; block < Config::tile_n / 8; ++block) {
      const int pair = block * 2 + half;
      const int64_t column = first_column + block * 8;
      const float first = finished.finish(accumulators[2 * pair], out_column + column);
      const float second = finished.finish(accumulators[2 * pair + 1], out_column + column + 1);
      body(pair, row, column, pack<typename Config::Output>(first, second));
    }
  }
}

// Stores registers to the 64 rows of out from (row, column) on. `write` puts two words at their
// address.
//
// Four lanes hold 16 bytes of a row in each block of 8 columns, half a sector. So neighbors trade:
// even lanes keep the even blocks and odd lanes keep the odd ones. The four then fill a sector.
//
//            block 0           block 1                    block 0      block 1
//   lanes    0  1  2  3        0  1  2  3       ->        0  0  2  2   1  1  3  3
template <class Config, class Write>
__device__ __forceinline__ void store(const GemmParameters& parameters,
                                      const WgmmaAccumulators<Config>& accumulators, int row,
                                      int column, Write write) {
  const int64_t stride = parameters.out.row_stride;
  auto* out = static_cast<typename Config::Output*>(parameters.out.pointer) + row * stride + column;
  const bool odd = threadIdx.x % 2;
  out += odd ? 6 : 0;  // lane 1's columns 2 and 3 become 8 to 11
  uint32_t of_even_block = 0;
  for_each_pair<Config>(
      parameters, accumulators, row, column,
      [&](int pair, int pair_row, int64_t pair_column, uint32_t word) {
        if (pair / 2 % 2 == 0) {
          of_even_block = word;
          return;
        }
        const uint32_t received = __shfl_xor_sync(0xffffffff, odd ? of_even_block : word, 1);
        if constexpr (Config::has_c) __syncwarp();  // c may be out: its owners must have read it
        const uint2 words = odd ? make_uint2(received, word) : make_uint2(of_even_block, received);
        write(reinterpret_cast<uint2*>(out + pair_row * stride + (pair_column - 8)), words);
      });
}

template <class Config>
__device__ __forceinline__ void store(const GemmParameters& parameters,
                                      const WgmmaAccumulators<Config>& accumulators, int row,
                                      int column) {
  store<Config>(parameters, accumulators, row, column,
                [](uint2* address, uint2 words) { *address = words; });
}

}  // namespace tilewright
