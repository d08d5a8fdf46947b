// From the accumulators of m64nNk16 wgmmas to out. Each warp writes its own 16 rows, without
// waiting for other warps.
//
// epilogue/warp_finish.cuh has what a lane holds.
#pragma once
#include "epilogue/epilogue.cuh"
#include "epilogue/pairs.cuh"
#include "epilogue/quad_stores.cuh"
#include "epilogue/warp_finish.cuh"
#include "layout/swizzle.cuh"
#include "parameters.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/movmatrix.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "types.cuh"

namespace tilewright {

// Config names: out_columns; c_pairs, bias_pairs, out_pairs: columns 2i and 2i + 1 can be accessed
// at once; tma_epilogue: through SMEM, with store_columns, store_swizzled and store_buffers, rather
// than straight from registers; vector_stores: out can be written 16 bytes at a time;
// out_by_columns: it is a column of out, not a row, that is written in pairs and vectors;
// chunk_stores: rows of out begin anywhere, and are written in the chunks of 16 bytes that lie in
// them.
template <class Config>
class WarpOutput {
  using Output = typename Config::Output;
  using Word = typename PairWord<Output>::type;
  static constexpr int blocks = Config::out_columns / 8, pairs = blocks * 2;  // of a lane
  static_assert(!Config::vector_stores || Config::out_pairs);
  static_assert(!Config::out_by_columns || (Config::out_pairs && !Config::tma_epilogue));
  static_assert(!Config::chunk_stores || !(Config::vector_stores || Config::out_by_columns));

  const GemmParameters& parameters;
  const TensorMap* map;  // of out; null without tma_epilogue
  uint32_t staging;      // SMEM address of this warp's buffers, (store_buffers, 16, store_columns)
  int buffer = 0;
  int lane = threadIdx.x % 32;

  // The number of elements of out from here to the end of the row; 0 or less if there are none.
  __device__ __forceinline__ int columns_inside(int row, int column) const {
    return row < parameters.m ? parameters.n / sums_per_column<Config> - column : 0;
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

  // Bytes from the start of a box in SMEM to element (row, column).
  static __device__ __forceinline__ uint32_t staged(uint32_t row, uint32_t column) {
    if constexpr (Config::store_swizzled) {
      return SwizzledRows<Config::store_columns>::offset(row, column);
    } else {
      return (row * Config::store_columns + column) * 2;
    }
  }

  // Registers -> SMEM -> GMEM, in chunks of store_columns columns, each a box of its own.
  __device__ __forceinline__ void store_through_smem(const Word (&words)[pairs],
                                                     const WarpTile& at) {
#pragma unroll
    for (int column = 0; column < Config::out_columns; column += Config::store_columns) {
      const uint32_t chunk = staging + buffer * Config::store_bytes;
      // Wait until the last store from this buffer has read it (rule 13).
      if (lane == 0) bulk_wait_read<Config::store_buffers - 1>();
      __syncwarp();
#pragma unroll
      for (int c = 0; c + 16 <= Config::store_columns; c += 16) {
        const int q = (column + c) / 4;
        stmatrix_x4(chunk + staged(lane % 16, c + lane / 16 * 8),
                    {words[q], words[q + 1], words[q + 2], words[q + 3]});
      }
      if constexpr (Config::store_columns % 16 == 8) {
        static_assert(Config::store_columns == Config::out_columns, "one box, so column is 0");
        constexpr int c = Config::store_columns - 8;
        stmatrix_x2(chunk + staged(lane % 16, c), {words[c / 4], words[c / 4 + 1]});
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

  __device__ __forceinline__ void transpose_quad(uint32_t (&words)[4]) const {
    tilewright::transpose_quad(words, lane, {lane ^ 1, lane ^ 2});
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
      if constexpr (Config::vector_stores && sizeof(Output) == 1) {
        // Eight blocks at a time, two in a word; n is a multiple of 16.
        const int column = at.column + lane % 4 * 16;
        const int inside = columns_inside(row, column);
#pragma unroll
        for (; block + 8 <= blocks; block += 8) {
          uint32_t quad[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int q = (block + 2 * i) * 2 + half;
            quad[i] = words[q] | static_cast<uint32_t>(words[q + 2]) << 16;
          }
          transpose_quad(quad);
          const uint32_t chunk[4] = {
              __byte_perm(quad[0], quad[1], 0x5410), __byte_perm(quad[2], quad[3], 0x5410),
              __byte_perm(quad[0], quad[1], 0x7632), __byte_perm(quad[2], quad[3], 0x7632)};
          if (inside > block * 8) store_global(out + column + block * 8, chunk);
        }
      } else if constexpr (Config::vector_stores) {  // four blocks at a time; n is a multiple of 8
        const int column = at.column + lane % 4 * 8;
        const int inside = columns_inside(row, column);
#pragma unroll
        for (; block + 4 <= blocks; block += 4) {
          const int q = block * 2 + half;
          uint32_t quad[4] = {words[q], words[q + 2], words[q + 4], words[q + 6]};
          transpose_quad(quad);
          if (inside > block * 8) {
            store_global(out + column + block * 8, quad);
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

  // Registers -> GMEM, where a row of out may begin at any element. The four lanes of a row have a
  // word of each block of 8 columns, and the first 16-byte boundary lies `ahead` columns after a
  // block's begin. So a chunk is the end of one block and the first `ahead` elements of the next:
  //
  //     blocks     0 1 2 3 4 5 6 7 | 0 1 2 3 4 5 6 7 | 0 1 ...
  //     chunks      |      0       |        1        |       2      with ahead = 1
  //
  // The lane whose word is the first of chunks has place 0, and those before it have theirs of the
  // next block. With an odd `ahead`, chunks begin in the middle of words, and each needs the first
  // word of the next chunk: therefore the last chunks come first. Chunk c ends in block c; the one
  // before block 0 and the last one are written in part, and so is the one in which the row ends,
  // after all others, so that this code is there once.
  __device__ __forceinline__ void store_chunks_from_registers(const Word (&words)[pairs],
                                                              const WarpTile& at) const {
    if constexpr (Config::has_c) __syncwarp();  // c may be out: all lanes have read their pairs
    const Epilogue<Config> epilogue(parameters, at.batch);
    const int row_lanes = lane & ~3;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at.row + lane / 4 + half * 8;
      const int inside = minimum(columns_inside(row, at.column), Config::out_columns);
      Output* const out = epilogue.at_row(row).out + at.column;
      const int ahead = -static_cast<int>(reinterpret_cast<uint64_t>(out) / sizeof(Output)) & 7;
      const int place = (lane - ahead / 2) & 3;
      const int partners[2] = {row_lanes | (((place ^ 1) + ahead / 2) & 3), lane ^ 2};
      uint32_t behind = 0;   // the first word of the lane's chunk of the turn before
      uint32_t cut[4] = {};  // the lane's chunk in which the row ends
      int cut_column = inside;
#pragma unroll
      for (int block = blocks / 4 * 4 - 1; block >= -1; block -= 4) {
        uint32_t quad[4], chunk[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int b = block + i;
          const uint32_t word = b >= 0 && b < blocks ? words[b * 2 + half] : 0;
          const uint32_t next = b + 1 < blocks ? words[(b + 1) * 2 + half] : 0;
          quad[i] = lane % 4 < ahead / 2 ? next : word;
        }
        tilewright::transpose_quad(quad, place, partners);
        const uint32_t next =
            __shfl_sync(0xFFFFFFFF, place == 0 ? behind : quad[0], row_lanes | ((lane + 1) & 3));
        behind = quad[0];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          chunk[i] = __funnelshift_r(quad[i], i < 3 ? quad[i + 1] : next, ahead % 2 * 16);
        }
        const int column = (block + place) * 8 + ahead;
        if (block < 0 && column < 0) {
          store_part(out + column, chunk, -column, inside - column);
        } else if (column + 8 <= inside) {
          store_global(out + column, chunk);
        } else if (column < inside) {
          cut_column = column;
#pragma unroll
          for (int i = 0; i < 4; ++i) cut[i] = chunk[i];
        }
      }
      store_part(out + cut_column, cut, 0, inside - cut_column);
    }
  }

  // Registers -> GMEM, where columns of out are contiguous. Transposed, block q of 8x8 has in lane
  // l of column l / 4 the rows l % 4 * 2 and the next.
  __device__ __forceinline__ void store_columns_from_registers(const Word (&words)[pairs],
                                                               const WarpTile& at) const {
    // c may be out: all lanes have read their pairs before any is overwritten.
    if constexpr (Config::has_c) __syncwarp();
    const int64_t stride = parameters.out.column_stride;
    Output* const out = static_cast<Output*>(parameters.out.pointer) +
                        batch_offset(parameters, parameters.out, at.batch);
    int block = 0;
    if constexpr (Config::vector_stores) {  // 8 rows of two blocks at a time; m is a multiple of 8
      const int row = at.row + lane % 2 * 8, column = at.column + lane % 4 / 2 * 8 + lane / 4;
      const int inside = columns_inside(row, column);
      Output* to = out + column * stride + row;
#pragma unroll
      for (; block + 2 <= blocks; block += 2) {
        uint32_t quad[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) quad[i] = transpose_8x8(words[block * 2 + i]);
        transpose_quad(quad);
        if (inside > block * 8) store_global(to, quad);
        to += 16 * stride;
      }
    }
    const int row = at.row + lane % 4 * 2, column = at.column + lane / 4;
    Output* to = out + (column + block * 8) * stride + row;
#pragma unroll
    for (; block < blocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t word = transpose_8x8(words[block * 2 + half]);
        if (columns_inside(row + half * 8, column) > block * 8) {
          *reinterpret_cast<uint32_t*>(to + half * 8) = word;
        }
      }
      to += 8 * stride;
    }
  }

 public:
  __device__ __forceinline__ WarpOutput(const GemmParameters& p, const TensorMap* map_out,
                                        uint32_t warp_staging)
      : parameters(p), map(map_out), staging(warp_staging) {}

  __device__ __forceinline__ void store(const typename WarpLayout<Config>::Words& words,
                                        const WarpTile& at) {
    if constexpr (Config::tma_epilogue) {
      store_through_smem(words, at);
    } else if constexpr (Config::out_by_columns) {
      store_columns_from_registers(words, at);
    } else if constexpr (Config::chunk_stores) {
      store_chunks_from_registers(words, at);
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
