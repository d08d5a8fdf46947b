// From the accumulators of m64nNk16 wgmmas to out. Each warp writes its own 16 rows, without waiting for other warps.
//
// A lane holds, of every block of 8 columns, two neighbours in each of two rows (PTX ISA: "wgmma: register fragments"):
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

// Config names: tile_n; c_pairs, bias_pairs, out_pairs (columns 2i and 2i + 1 can be accessed at once); tma_epilogue, store_columns, store_buffers; vector_stores (16 bytes, without tma_epilogue).
template <class Config>
class WarpOutput {
  using Output = typename Config::Output;
  static constexpr int pairs = Config::tile_n / 4;  // of a lane
  static constexpr int chunk_bytes = 16 * Config::store_columns * 2;

  const GemmParameters& parameters;
  const TensorMap* map;  // of out; null without tma_epilogue
  uint32_t staging;      // SMEM address of this warp's buffers, (store_buffers, 16, store_columns)
  int buffer = 0;
  int lane = threadIdx.x % 32;

  static __device__ __forceinline__ int pair_row(int q) { return q % 2 * 8; }
  static __device__ __forceinline__ int pair_column(int q) { return q / 2 * 8; }

  // Elements `column` (even) and `column` + 1 of a row; at the row's end, the nearest ones inside out.
  template <bool at_once, class Element>
  __device__ __forceinline__ Pair<Element> load_pair(const Element* row, int64_t stride, int column) const {
    if constexpr (at_once) return *reinterpret_cast<const Pair<Element>*>(row + minimum(column, parameters.n - 2));
    return {row[minimum(column, parameters.n - 1) * stride], row[minimum(column + 1, parameters.n - 1) * stride]};
  }

  // A finished pair. What lies outside out is never stored; reading c and bias inside it instead takes no branch.
  __device__ __forceinline__ float2 finish(const Epilogue<Config>& epilogue, float first, float second, int row,
                                           int column) const {
    const EpilogueRow<Config> at = epilogue.at_row(minimum(row, parameters.m - 1));
    Pair<typename Config::Addend> c{};
    Pair<typename Config::Bias> bias{};
    if constexpr (Config::has_c) c = load_pair<Config::c_pairs>(at.c, parameters.c.column_stride, column);
    if constexpr (Config::has_bias) bias = load_pair<Config::bias_pairs>(at.bias, parameters.bias.column_stride, column);
    return make_float2(at.combine(first, c.first, bias.first), at.combine(second, c.second, bias.second));
  }

  // Registers -> SMEM -> GMEM, in chunks of store_columns columns, each a box of its own.
  template <class Pairs>
  __device__ __forceinline__ void store_through_smem(const WarpTile& at, Pairs pair) {
    using Layout = SwizzledRows<Config::store_columns>;
#pragma unroll
    for (int column = 0; column < Config::tile_n; column += Config::store_columns) {
      const uint32_t chunk = staging + buffer * chunk_bytes;
      if (lane == 0) bulk_wait_read<Config::store_buffers - 1>();  // this buffer's last store has read it (rule 13)
      __syncwarp();
#pragma unroll
      for (int c = 0; c < Config::store_columns; c += 16) {
        const int q = (column + c) / 4;
        const uint32_t words[4] = {pair(q), pair(q + 1), pair(q + 2), pair(q + 3)};
        stmatrix_x4(chunk + Layout::offset(lane % 16, c + lane / 16 * 8), words);
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

  // A pair of neighbours, or what of it lies inside out. Both types hold two elements: Word is a register for 2-byte ones.
  template <class Word>
  __device__ __forceinline__ void store_pair(Output* out, Word pair, int row, int column) const {
    if (row >= parameters.m || column >= parameters.n) return;
    if constexpr (Config::out_pairs) {
      *reinterpret_cast<Word*>(address(out, row, column)) = pair;
    } else {
      const auto elements = __builtin_bit_cast(Pair<Output>, pair);
      *address(out, row, column) = elements.first;
      if (column + 1 < parameters.n) *address(out, row, column + 1) = elements.second;
    }
  }

  // Four lanes that hold a row's pairs of four blocks exchange them, so that each has one block, 16 bytes:
  // words[b] of lane l becomes words[l] of lane b (lanes modulo 4).
  __device__ __forceinline__ void transpose_quad(uint32_t (&words)[4]) const {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      const bool upper = lane & bit;
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        if (b & bit) continue;
        const uint32_t received = __shfl_xor_sync(0xFFFFFFFF, upper ? words[b] : words[b + bit], bit);
        (upper ? words[b] : words[b + bit]) = received;
      }
    }
  }

  // Registers -> GMEM.
  template <class Pairs>
  __device__ __forceinline__ void store_from_registers(const WarpTile& at, Pairs pair) const {
    Output* const out =
        static_cast<Output*>(parameters.out.pointer) + batch_offset(parameters, parameters.out, at.batch);
    const int first_row = at.row + lane / 4, first_column = at.column + lane % 4 * 2;
    constexpr int vectors = Config::vector_stores ? pairs / 8 * 8 : 0;  // pairs that go out 16 bytes at a time
#pragma unroll
    for (int q = 0; q < vectors; q += 8) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t words[4] = {pair(q + half), pair(q + half + 2), pair(q + half + 4), pair(q + half + 6)};
        transpose_quad(words);
        const int row = first_row + pair_row(half), column = at.column + pair_column(q) + lane % 4 * 8;
        if (row < parameters.m && column < parameters.n) {  // n is a multiple of 8
          *reinterpret_cast<uint4*>(address(out, row, column)) = make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
    }
#pragma unroll
    for (int q = vectors; q < pairs; ++q) {
      store_pair(out, pair(q), first_row + pair_row(q), first_column + pair_column(q));
    }
  }

  // Registers -> GMEM for fp32.
  __device__ __forceinline__ void store_floats(const float (&accumulators)[2 * pairs], const WarpTile& at) const {
    const Epilogue<Config> epilogue(parameters, at.batch);
    const int first_row = at.row + lane / 4, first_column = at.column + lane % 4 * 2;
#pragma unroll
    for (int q = 0; q < pairs; ++q) {
      const int row = first_row + pair_row(q), column = first_column + pair_column(q);
      const float2 values = finish(epilogue, accumulators[2 * q], accumulators[2 * q + 1], row, column);
      store_pair(epilogue.out, values, row, column);
    }
  }

 public:
  __device__ __forceinline__ WarpOutput(const GemmParameters& p, const TensorMap* map_out, uint32_t warp_staging)
      : parameters(p), map(map_out), staging(warp_staging) {}

  // The lane's finished values, two to a register.
  __device__ __forceinline__ void finish(uint32_t (&words)[pairs], const float (&accumulators)[2 * pairs],
                                         const WarpTile& at) const {
    with_pairs(accumulators, at, [&](auto pair) {
#pragma unroll
      for (int q = 0; q < pairs; ++q) words[q] = pair(q);
    });
  }

  // Writes values that `finish` made.
  __device__ __forceinline__ void store(const uint32_t (&words)[pairs], const WarpTile& at) {
    store_pairs(at, [&](int q) { return words[q]; });
  }

  // Finishes and writes in one go, which takes fewer registers.
  __device__ __forceinline__ void store(const float (&accumulators)[2 * pairs], const WarpTile& at) {
    if constexpr (sizeof(Output) == 2) {
      with_pairs(accumulators, at, [&](auto pair) { store_pairs(at, pair); });
    } else {
      store_floats(accumulators, at);
    }
  }

  // Before the CTA ends: nothing reads its SMEM any more (rule 14).
  __device__ __forceinline__ void drain() const {
    if constexpr (Config::tma_epilogue) {
      if (lane == 0) bulk_wait<0>();
      __syncwarp();
    }
  }

 private:
  // Calls `use` with the function from q to the finished pair.
  template <class Use>
  __device__ __forceinline__ void with_pairs(const float (&accumulators)[2 * pairs], const WarpTile& at,
                                             Use use) const {
    const Epilogue<Config> epilogue(parameters, at.batch);
    int first_row = at.row + lane / 4, first_column = at.column + lane % 4 * 2;
    // What follows from the column is not to be kept in registers from one row block to the next.
    asm volatile("" : "+r"(first_row), "+r"(first_column));
    use([&](int q) {
      const int row = first_row + pair_row(q), column = first_column + pair_column(q);
      const float2 values = finish(epilogue, accumulators[2 * q], accumulators[2 * q + 1], row, column);
      return pack<Output>(values.x, values.y);
    });
  }

  template <class Pairs>
  __device__ __forceinline__ void store_pairs(const WarpTile& at, Pairs pair) {
    if constexpr (Config::tma_epilogue) {
      store_through_smem(at, pair);
    } else {
      store_from_registers(at, pair);
    }
  }
};

}  // namespace tilewright
