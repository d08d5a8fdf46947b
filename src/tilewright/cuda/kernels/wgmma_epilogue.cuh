// From the accumulators of m64nNk16 wgmmas to out. Each warp writes its own 16 rows, without
// waiting for other warps.
//
// A lane holds, of every block of 8 columns, two neighbours in each of two rows (PTX ISA: "wgmma:
// register fragments"):
//
//                 column  0 1    2 3    4 5    6 7      8 9 ...
//     row 0      lanes     0      1      2      3        0        pair 0 of block 0, pair 2 ...
//     row 1                4      5      6      7        4
//     ...
//     row 8                0      1      2      3        0        pair 1 of block 0, pair 3 ...
//
// so pair q is in row q % 2 * 8 + lane / 4, columns q / 2 * 8 + lane % 4 * 2 and the next.
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "layout/swizzle.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "types.cuh"

namespace tilewright {

// Where the 16 x tile_n elements of one warp lie in out.
struct WarpTile {
  int row, column, batch;
};

template <class Element>
struct alignas(2 * sizeof(Element)) Pair {
  Element first, second;
};

// Two neighbours in registers.
template <class Output>
struct PairWord {
  using type = uint32_t;
};

template <>
struct PairWord<float> {
  using type = float2;
};

// Config names: tile_n; c_pairs, bias_pairs, out_pairs: columns 2i and 2i + 1 can be accessed at
// once; tma_epilogue: through SMEM, with store_columns and store_buffers, rather than straight from
// registers; vector_stores: out can be written 16 bytes at a time.
template <class Config>
class WarpOutput {
  using Output = typename Config::Output;
  using Word = typename PairWord<Output>::type;
  static constexpr int pairs = Config::tile_n / 4;  // of a lane

  const GemmParameters& parameters;
  const TensorMap* map;  // of out; null without tma_epilogue
  uint32_t staging;      // SMEM address of this warp's buffers, (store_buffers, 16, store_columns)
  int buffer = 0;
  int lane = threadIdx.x % 32;

  static __device__ __forceinline__ int pair_row(int q) { return q % 2 * 8; }
  static __device__ __forceinline__ int pair_column(int q) { return q / 2 * 8; }

  // Elements `column` (even) and `column` + 1 of a row; past its end, the nearest ones inside out.
  template <bool at_once, class Element>
  __device__ __forceinline__ Pair<Element> load_pair(const Element* row, int64_t stride,
                                                     int column) const {
    if constexpr (at_once) {
      return *reinterpret_cast<const Pair<Element>*>(row + minimum(column, parameters.n - 2));
    } else {
      const int last = parameters.n - 1;
      return {row[minimum(column, last) * stride], row[minimum(column + 1, last) * stride]};
    }
  }

  // A finished pair. What lies outside out is never stored; reading c and bias inside it instead
  // takes no branch. Where c is out, that read may meet the owner's store; its value is discarded.
  __device__ __forceinline__ Word finish_pair(const Epilogue<Config>& epilogue, float first,
                                              float second, int row, int column) const {
    const EpilogueRow<Config> at = epilogue.at_row(minimum(row, parameters.m - 1));
    Pair<typename Config::Addend> c{};
    Pair<typename Config::Bias> bias{};
    if constexpr (Config::has_c) {
      c = load_pair<Config::c_pairs>(at.c, parameters.c.column_stride, column);
    }
    if constexpr (Config::has_bias) {
      bias = load_pair<Config::bias_pairs>(at.bias, parameters.bias.column_stride, column);
    }
    const float x = at.combine(first, c.first, bias.first);
    const float y = at.combine(second, c.second, bias.second);
    if constexpr (sizeof(Output) == 2) {
      return pack<Output>(x, y);
    } else {
      return make_float2(x, y);
    }
  }

  // Registers -> SMEM -> GMEM, in chunks of store_columns columns, each a box of its own.
  __device__ __forceinline__ void store_through_smem(const Word (&words)[pairs],
                                                     const WarpTile& at) {
    using Layout = SwizzledRows<Config::store_columns>;
#pragma unroll
    for (int column = 0; column < Config::tile_n; column += Config::store_columns) {
      const uint32_t chunk = staging + buffer * Config::store_bytes;
      // The last store from this buffer has read it (rule 13).
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

  __device__ __forceinline__ Output* address(Output* out, int row, int column) const {
    return out + row * parameters.out.row_stride + column * parameters.out.column_stride;
  }

  // A pair of neighbours, or what of it lies inside out.
  __device__ __forceinline__ void store_pair(Output* out, Word word, int row, int column) const {
    if (row >= parameters.m || column >= parameters.n) return;
    if constexpr (Config::out_pairs) {
      *reinterpret_cast<Word*>(address(out, row, column)) = word;
    } else {
      const auto elements = __builtin_bit_cast(Pair<Output>, word);
      *address(out, row, column) = elements.first;
      if (column + 1 < parameters.n) *address(out, row, column + 1) = elements.second;
    }
  }

  // Four lanes that hold a row's pairs of four blocks exchange them, so that each has one block, 16
  // bytes: words[b] of lane l becomes words[l] of lane b (lanes modulo 4).
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
    Output* const out = static_cast<Output*>(parameters.out.pointer) +
                        batch_offset(parameters, parameters.out, at.batch);
    const int first_row = at.row + lane / 4, first_column = at.column + lane % 4 * 2;
    // So many pairs go out 16 bytes at a time.
    constexpr int vectors = Config::vector_stores ? pairs / 8 * 8 : 0;
    if constexpr (Config::vector_stores) {
#pragma unroll
      for (int i = 0; i < vectors / 4; ++i) {
        const int q = i / 2 * 8 + i % 2;  // four blocks of one row
        uint32_t block[4] = {words[q], words[q + 2], words[q + 4], words[q + 6]};
        transpose_quad(block);
        const int row = first_row + pair_row(q);
        const int column = at.column + pair_column(q) + lane % 4 * 8;
        if (row < parameters.m && column < parameters.n) {  // n is a multiple of 8
          *reinterpret_cast<uint4*>(address(out, row, column)) =
              make_uint4(block[0], block[1], block[2], block[3]);
        }
      }
    }
#pragma unroll
    for (int q = vectors; q < pairs; ++q) {
      store_pair(out, words[q], first_row + pair_row(q), first_column + pair_column(q));
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
    // What follows from these is not to be kept in registers from one row block to the next.
    asm volatile("" : "+r"(row), "+r"(column));
#pragma unroll
    for (int q = 0; q < pairs; ++q) {
      words[q] = finish_pair(epilogue, accumulators[2 * q], accumulators[2 * q + 1],
                             row + pair_row(q), column + pair_column(q));
    }
  }

  __device__ __forceinline__ void store(const Words& words, const WarpTile& at) {
    if constexpr (Config::tma_epilogue) {
      store_through_smem(words, at);
    } else {
      store_from_registers(words, at);
    }
  }

  // Before the CTA ends: nothing reads its SMEM any more (rule 15).
  __device__ __forceinline__ void drain() const {
    if constexpr (Config::tma_epilogue) {
      if (lane == 0) bulk_wait<0>();
      __syncwarp();
    }
  }
};

}  // namespace tilewright
