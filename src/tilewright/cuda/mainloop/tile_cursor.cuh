// The walk of a CTA's threads through one operand's tiles along k in GMEM, whatever its strides.
//
// A (m, k) and B (k, n) are treated alike: "mn" is m for A and n for B. An operand is walked in
// rows along the dimension whose elements are closer together in memory: along k if it is K-major,
// along mn if it is MN-major.
#pragma once
#include "types.cuh"

namespace tilewright {

// One thread's way through the tiles. In each pass the threads take `rows_per_pass` neighboring
// rows, and each thread takes `elements` neighbors of a row. After the passes of one tile come
// those of the next, even beyond the end of k. stacked: along mn, what is 2i in a tile and what is
// 2i + 1 lie `apart` elements apart, and mn_stride leads from pair to pair. neighbors: so many
// neighboring threads take neighbors of a row, and the next ones go on in the next row; 0: all that
// a row has.
template <class Element, int tile_mn, int tile_k, bool k_major, int elements, int threads,
          bool stacked = false, int neighbors = 0>
struct TileCursor {
  static constexpr int rows = k_major ? tile_mn : tile_k;
  static constexpr int columns = k_major ? tile_k : tile_mn;
  static constexpr int threads_per_row = columns / elements;
  static constexpr int across = neighbors ? neighbors : threads_per_row;
  static constexpr int rows_per_pass = threads / threads_per_row;
  static constexpr int passes = rows / rows_per_pass;
  static_assert(threads_per_row * elements == columns);
  static_assert(rows_per_pass * threads_per_row == threads && passes * rows_per_pass == rows);
  static constexpr bool paired_columns = stacked && !k_major;
  static constexpr int rows_per_stride = stacked && k_major ? 2 : 1;
  static constexpr int columns_per_stride = paired_columns ? 2 : 1;
  static_assert(rows_per_pass % rows_per_stride == 0);

  // This thread's first element of the next pass, which may lie outside the matrix.
  const Element* source;
  const int64_t row_stride, column_stride, apart;
  const int first_row, column;  // this thread's place in the tile in pass 0
  int rows_left, columns_left;  // in the matrix, from there on

  // The tiles start at row or column `mn_start` of `matrix`, whose size is (mn, k).
  __device__ __forceinline__ TileCursor(const Element* matrix, int64_t mn_stride, int64_t k_stride,
                                        int mn_start, int mn, int k, int64_t of_pair = 0)
      : row_stride(k_major ? mn_stride : k_stride),
        column_stride(k_major ? k_stride : mn_stride),
        apart(of_pair),
        first_row(threadIdx.x / across % rows_per_pass),
        column((threadIdx.x % across + beyond(threadIdx.x)) * elements),
        rows_left((k_major ? mn - mn_start : k) - first_row),
        columns_left((k_major ? k : mn - mn_start) - column) {
    source = matrix + mn_start / (stacked ? 2 : 1) * mn_stride +
             first_row / rows_per_stride * row_stride + column / columns_per_stride * column_stride;
    if constexpr (stacked) source += (k_major ? first_row : column) % 2 * apart;
  }

  // The chunks of a row that lie ahead of those of the `across` threads of which a thread is one.
  static __device__ __forceinline__ int beyond(int thread) {
    return across == threads_per_row ? 0 : thread / (across * rows_per_pass) * across;
  }

  // Moves a pointer from element `i` of this thread, which is one of `elements`, to the next.
  __device__ __forceinline__ void to_next(const Element*& element, int i) const {
    if constexpr (paired_columns) {
      step(element, i % 2 ? column_stride - apart : apart);
    } else {
      step(element, column_stride);
    }
  }

  // Whether neighbors of a row are neighbors in memory.
  __device__ __forceinline__ bool adjacent() const { return !paired_columns && column_stride == 1; }

  // This thread's row of the tile in `pass`.
  __device__ __forceinline__ int row(int pass) const { return first_row + pass * rows_per_pass; }

  // The number of this thread's elements of a row that lie inside the matrix.
  __device__ __forceinline__ int columns_inside() const {
    return maximum(minimum(columns_left, elements), 0);
  }

  // The number of its elements of `pass` that do.
  __device__ __forceinline__ int valid(int pass) const {
    return pass * rows_per_pass < rows_left ? columns_inside() : 0;
  }

  // Whether the tile lies inside the matrix, for all threads of the CTA.
  __device__ __forceinline__ bool whole() const {
    return rows_left + first_row >= rows && columns_left + column >= columns;
  }

  // Moves on to the pass after `pass`.
  __device__ __forceinline__ void advance(int pass) {
    step(source, rows_per_pass / rows_per_stride * row_stride);
    if (pass == passes - 1) next_tile(rows / rows_per_stride * row_stride);
  }

  // Moves on to the next tile's first pass; `source` has `walked` on from this tile's first pass.
  __device__ __forceinline__ void next_tile(int64_t walked = 0) {
    if constexpr (k_major) {
      source += columns * column_stride - walked;
      columns_left -= columns;
    } else {
      source += rows * row_stride - walked;
      rows_left -= rows;
    }
  }

  // The empty assembly hides that the stride is always the same. Otherwise the compiler would hold
  // all its multiples in registers throughout a loop.
  static __device__ __forceinline__ void step(const Element*& pointer, int64_t stride) {
    asm volatile("" : "+l"(stride));
    pointer += stride;
  }
};

}  // namespace tilewright
