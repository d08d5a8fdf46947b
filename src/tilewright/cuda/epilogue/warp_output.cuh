// From the accumulators of m64nNk16 wgmmas to out. Each warp writes its own 16 rows, without
// waiting for other warps.
//
// A lane holds, of every block of 8 columns, two neighbors in each of two rows (PTX ISA: "wgmma:
// register fragments"):
//
//                 column  0 1    2 3    4 5    6 7      8 9 ...
//     row 0      lanes     0      1      2      3        0        pair 0 of block 0, pair 2 ...
//     row 1                4      5      6      7        4
//     ...
//     row 8                0      1      2      3        0        pair 1 of block 0, pair 3 ...
//
// So pair q is in row q % 2 * 8 + lane / 4, columns q / 2 * 8 + lane % 4 * 2 and the next.
#pragma once
#include "epilogue/epilogue.cuh"
#include "layout/swizzle.cuh"
#include "parameters.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "types.cuh"

namespace tilewright {

// The place in out of the 16 x tile_n elements of one warp.
struct WarpTile {
  int row, column, batch;
};

template <class Element>
struct Pair {
  Element first, second;
};

// Config names: tile_n; c_pairs, bias_pairs, out_pairs: columns 2i and 2i + 1 can be accessed at
// once; tma_epilogue: results go through SMEM, with store_columns and store_buffers, and not
// straight from registers; vector_stores: out can be written 16 bytes at a time.
template <class Config>
class WarpOutput {
  using Output = typename Config::Output;
  using Word = typename PairWord<Output>::type;
  static constexpr int blocks = Config::tile_n / 8, pairs = blocks * 2;  // of a lane
  static_assert(!Config::vector_stores || Config::out_pairs);

  const GemmParameters& parameters;
  const TensorMap* map;  // of out; null without tma_epilogue
  uint32_t staging;      // SMEM address of this warp's buffers, (store_buffers, 16, store_columns)
  int buffer = 0;
  int lane = threadIdx.x % 32;

  // The number of elements of out from here to the end of the row; 0 or less if there are none.
  __device__ __forceinline__ int columns_inside(int row, int column) const {
    return row < parameters.m ? parameters.n - column : 0;
  }

  // The pair that starts at `element`. Only its first `inside` elements are read; the others are
  // zero.
  template <bool at_once, class Element>
  static __device__ __forceinline__ Pair<Element> load_pair(const Element* element, int64_t stride,
                                                            int inside) {
    if constexpr (at_once) {
      typename PairWord<Element>::type word{};
      if (inside > 0) word = *reinterpret_cast<const decltype(word)*>(element);
      return __builtin_bit_cast(Pair<Element>, word);
    } else {
      Pair<Element> pair{};
      if (inside > 0) pair.first = element[0];
      if (inside > 1) pair.second = element[stride];
      return pair;
    }
  }

  static __device__ __forceinline__ void store_pair(Output* element, int64_t stride, int inside,
                                                    Word word) {
    if constexpr (Config::out_pairs) {
      if (inside > 0) *reinterpret_cast<Word*>(element) = word;
    } else {
      const auto pair = __builtin_bit_cast(Pair<Output>, word);
      if (inside > 0) element[0] = pair.first;
      if (inside > 1) element[stride] = pair.second;
    }
  }

  // Registers -> SMEM -> GMEM, in chunks of store_columns columns, each a box of its own.
  __device__ __forceinline__ void store_through_smem(const Word (&words)[pairs],
                                                     const WarpTile& at) {
    using Layout = SwizzledRows<Config::store_columns>;
#pragma unroll
    for (int column = 0; column < Config::tile_n; column += Config::store_columns) {
      const uint32_t chunk = staging + buffer * Config::store_bytes;
      // Wait until the last store from this buffer has read it (rule 13).
      if (lane == 0) bulk_wait_read<Config::store_buffers - 1>();
      __syncwarp();
#pragma unroll
      for (int c = 0; c < Config::store_columns; c += 16) {
        const int q = (column + c) / 4;
        stmatrix_x4(chunk + Layout::offset(lane % 16, c + lane / 16 * 8),
                    {words[q], words[q + 1], words[q + 2], words[q + 3]});
      }
      fence_proxy_async_shared();  // every writer, before the barrier (rule 1)
      __syncwarp();
      if (lane == 0) {
        tma_store(*map, chunk, at.column + column, at.row, at.batch);
        bulk_commit();
      }
      if (++buffer == Config::store_buffers) buffer = 0;
    }
  }

  // Four lanes hold a row's pairs of four blocks. They exchange them, and then each has one block
  // of 16 bytes: words[b] of lane l becomes words[l] of lane b (lanes modulo 4).
  __device__ __forceinline__ void transpose_quad(uint32_t (&words)[4]) const {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      const bool upper = lane & bit;
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        if (b & bit) continue;
        const uint32_t received =
            __shfl_xor_sync(0xFFFFFFFF, upper ? words[b] : words[b + bit], bit);
        (upper ? words[b] : words[b + bit]) = received;
      }
    }
  }

  // Registers -> GMEM.
  __device__ __forceinline__ void store_from_registers(const Word (&words)[pairs],
                                                       const WarpTile& at) const {
    // c may be out. A 16-byte store covers the pairs of four lanes, which must all have read them.
    if constexpr (Config::has_c && Config::vector_stores) __syncwarp();
    const Epilogue<Config> epilogue(parameters, at.batch);
    const int64_t stride = Config::out_pairs ? 1 : parameters.out.column_stride;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at.row + lane / 4 + half * 8;
      Output* out = epilogue.at_row(row).out;
      int block = 0;
      if constexpr (Config::vector_stores) {  // four blocks at a time; n is a multiple of 8
        const int column = at.column + lane % 4 * 8;
        const int inside = columns_inside(row, column);
#pragma unroll
        for (; block + 4 <= blocks; block += 4) {
          const int q = block * 2 + half;
          uint32_t quad[4] = {words[q], words[q + 2], words[q + 4], words[q + 6]};
          transpose_quad(quad);
          if (inside > block * 8) {
            *reinterpret_cast<uint4*>(out + column + block * 8) =
                make_uint4(quad[0], quad[1], quad[2], quad[3]);
          }
        }
      }
      const int column = at.column + lane % 4 * 2;
      const int inside = columns_inside(row, column);
      out += (column + block * 8) * stride;
#pragma unroll
      for (; block < blocks; ++block) {
        store_pair(out, stride, inside - block * 8, words[block * 2 + half]);
        out += 8 * stride;
      }
    }
  }

 public:
  // The finished values of a lane.
  using Words = Word[pairs];

  __device__ __forceinline__ WarpOutput(const GemmParameters& p, const TensorMap* map_out,
                                        uint32_t warp_staging)
      : parameters(p), map(map_out), staging(warp_staging) {}

  __device__ __forceinline__ void finish(Words& words, const float (&accumulators)[2 * pairs],
                                         const WarpTile& at) const {
    const Epilogue<Config> epilogue(parameters, at.batch);
    int row = at.row + lane / 4, column = at.column + lane % 4 * 2;
    // The compiler must not keep values derived from these in registers until the next row block.
    asm volatile("" : "+r"(row), "+r"(column));
    const int64_t c_stride = Config::c_pairs ? 1 : parameters.c.column_stride;
    const int64_t bias_stride = Config::bias_pairs ? 1 : parameters.bias.column_stride;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const EpilogueRow<Config> epilogue_row = epilogue.at_row(row + half * 8);
      const typename Config::Addend* c = epilogue_row.c + column * c_stride;
      const typename Config::Bias* bias = epilogue_row.bias + column * bias_stride;
      const int inside = columns_inside(row + half * 8, column);
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        const int q = block * 2 + half;
        Pair<typename Config::Addend> c_pair{};
        Pair<typename Config::Bias> bias_pair{};
        if constexpr (Config::has_c) {
          c_pair = load_pair<Config::c_pairs>(c, c_stride, inside - block * 8);
          c += 8 * c_stride;
        }
        if constexpr (Config::has_bias) {
          bias_pair = load_pair<Config::bias_pairs>(bias, bias_stride, inside - block * 8);
          bias += 8 * bias_stride;
        }
        words[q] = word_of<Output>(
            epilogue_row.combine(accumulators[2 * q], c_pair.first, bias_pair.first),
            epilogue_row.combine(accumulators[2 * q + 1], c_pair.second, bias_pair.second));
      }
    }
  }

  __device__ __forceinline__ void store(const Words& words, const WarpTile& at) {
    if constexpr (Config::tma_epilogue) {
      store_through_smem(words, at);
    } else {
      store_from_registers(words, at);
    }
  }

  // Waits until nothing reads the CTA's SMEM anymore; required before it ends (rule 15).
  __device__ __forceinline__ void drain() const {
    if constexpr (Config::tma_epilogue) {
      if (lane == 0) bulk_wait<0>();
      __syncwarp();
    }
  }
};

}  // namespace tilewright
