// Copies A, B or both to where their rows begin on lines of L2, so that TMA can read them.
//
// c is where A goes, and bias where B goes. A matrix is copied in the order in which it is stored:
// its rows are those of memory. A CTA copies a block of rows by columns; a thread keeps to its
// chunk of 16 bytes along them, in some rows, and reads all of these before it writes one, since
// memory is kept busy by what is in flight. A row may begin at any element; then a chunk of the
// copy is cut from the two aligned ones that it straddles. What lies outside of a row is never
// read, and the last chunk of a row of the copy is filled up with zeros.
#pragma once
#include "layout/straddle.cuh"
#include "parameters.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

// One operand as it lies in memory, with its copy.
struct Repacking {
  const MatrixParameters &from, &to;
  int64_t from_row, from_column, to_row;  // strides
  int rows, columns;
};

// Config names: Input; thread_rows: rows of a thread; for each of a and b: copies, transposed
// (whether its columns are the rows of memory), unit_strides (whether neighbors are neighbors in
// memory), lanes (that share a row).
template <class Config, bool unit_strides, int lanes>
class RowCopier {
  using Element = typename Config::Input;
  static constexpr int in_chunk = 16 / sizeof(Element), thread_rows = Config::thread_rows;
  static constexpr int rows_at_once = Config::threads / lanes;
  static constexpr int block_rows = rows_at_once * thread_rows, block_columns = lanes * in_chunk;

  struct Chunk {
    uint32_t words[4];
  };
  struct Elements {
    Element values[in_chunk];
  };

  // The elements from `source` on, as many as a chunk has or the row still has; `inside`: how many
  // of the row lie from `source` on, and `before`: how many lie before it.
  static __device__ __forceinline__ Chunk load(const Element* source, int64_t stride, int before,
                                               int inside) {
    Chunk chunk{};
    const int skew = reinterpret_cast<uint64_t>(source) % 16;
    const int ahead = skew / static_cast<int>(sizeof(Element));
    if (unit_strides && before >= ahead && inside >= 2 * in_chunk - ahead) {
      uint32_t both[8];
      load_global(*reinterpret_cast<uint32_t (*)[4]>(both), source - ahead);
      load_global(*reinterpret_cast<uint32_t (*)[4]>(both + 4), source - ahead + in_chunk);
      straddle(chunk.words, both, skew);
    } else {
      Elements elements{};
#pragma unroll
      for (int i = 0; i < in_chunk; ++i) {
        if (i < inside) elements.values[i] = source[i * (unit_strides ? 1 : stride)];
      }
      chunk = __builtin_bit_cast(Chunk, elements);
    }
    return chunk;
  }

 public:
  // The CTAs across and down one matrix.
  static __device__ __forceinline__ uint32_t across(const Repacking& part) {
    return ceil_div(part.columns, block_columns);
  }

  static __device__ __forceinline__ uint32_t down(const Repacking& part) {
    return ceil_div(part.rows, block_rows);
  }

  // Block number `cta` of a matrix that starts so many elements behind the first.
  static __device__ __forceinline__ void copy(const Repacking& part, uint32_t cta, int64_t from,
                                              int64_t to) {
    const int column = (cta % across(part) * lanes + threadIdx.x % lanes) * in_chunk;
    const int first_row = cta / across(part) * block_rows + threadIdx.x / lanes;
    if (column >= part.columns) return;
    const Element* source = static_cast<const Element*>(part.from.pointer) + from +
                            first_row * part.from_row + column * part.from_column;
    Element* destination =
        static_cast<Element*>(part.to.pointer) + to + first_row * part.to_row + column;
    const int64_t from_step = rows_at_once * part.from_row, to_step = rows_at_once * part.to_row;
    Chunk loaded[thread_rows];
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) {
      if (first_row + i * rows_at_once < part.rows) {
        loaded[i] = load(source, part.from_column, column, part.columns - column);
      }
      source += from_step;
    }
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) {
      if (first_row + i * rows_at_once < part.rows) store_global(destination, loaded[i].words);
      destination += to_step;
    }
  }
};

// The CTA's block of an operand, if `cta` is one of its CTAs; how many these are.
template <class Config, bool unit_strides, int lanes>
__device__ __forceinline__ int repack(const GemmParameters& parameters, const Repacking& part,
                                      int cta) {
  using Copier = RowCopier<Config, unit_strides, lanes>;
  const int ctas = Copier::across(part) * Copier::down(part);
  const int batches = is_broadcast(parameters, part.to) ? 1 : parameters.batch_count;
  if (cta >= 0 && cta < ctas * batches) {
    const int batch = batches == 1 ? 0 : cta / ctas;
    Copier::copy(part, cta - batch * ctas, batch_offset(parameters, part.from, batch),
                 batch_offset(parameters, part.to, batch));
  }
  return ctas * batches;
}

// `matrix` as it lies in memory, (rows, columns) or transposed.
template <bool transposed>
__device__ __forceinline__ Repacking as_stored(const MatrixParameters& from,
                                               const MatrixParameters& to, int rows, int columns) {
  if constexpr (transposed) {
    return {from, to, from.column_stride, from.row_stride, to.column_stride, columns, rows};
  } else {
    return {from, to, from.row_stride, from.column_stride, to.row_stride, rows, columns};
  }
}

template <class Config>
__device__ __forceinline__ void repack_kernel(const GemmParameters& parameters) {
  wait_for_earlier_grids();
  launch_next_grid();
  int cta = blockIdx.x;
  if constexpr (Config::copies_a) {
    cta -= repack<Config, Config::a_unit_strides, Config::a_lanes>(
        parameters,
        as_stored<Config::a_transposed>(parameters.a, parameters.c, parameters.m, parameters.k),
        cta);
  }
  if constexpr (Config::copies_b) {
    repack<Config, Config::b_unit_strides, Config::b_lanes>(
        parameters,
        as_stored<Config::b_transposed>(parameters.b, parameters.bias, parameters.k, parameters.n),
        cta);
  }
}

}  // namespace tilewright
