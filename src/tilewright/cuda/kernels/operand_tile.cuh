// One operand's tile of 2-byte elements in SMEM, how it gets there from a matrix of any strides and alignment, and
// how warps read mma.m16n8k16 fragments from it. A (m, k) and B (k, n) are treated alike: "mn" is m for A, n for B.
#pragma once
#include "kernels/parameters.cuh"
#include "layout/swizzle.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Rows run along k where the operand is K-major and along mn where it is MN-major, as in GMEM.
template <int tile_mn, int tile_k, bool k_major_>
struct OperandTile {
  static constexpr bool k_major = k_major_;
  static constexpr int rows = k_major ? tile_mn : tile_k;
  static constexpr int columns = k_major ? tile_k : tile_mn;
  using Layout = SwizzledRows<columns>;

  // This lane's part of the 16x16 block at (mn, k) of a tile: its four 8x8 matrices, numbered along mn first, as the
  // fragment of A wants them, or along k first, which makes two fragments of B. The warp calls it together.
  template <bool mn_first>
  static __device__ __forceinline__ void load_fragment(uint32_t (&words)[4], uint32_t tile, int mn, int k) {
    const int lane = threadIdx.x % 32;
    const int low = lane / 8 % 2 * 8, high = lane / 16 * 8;
    const int mn_half = mn_first ? low : high, k_half = mn_first ? high : low;
    const uint32_t offset = k_major ? Layout::offset(mn + mn_half + lane % 8, k + k_half)
                                    : Layout::offset(k + k_half + lane % 8, mn + mn_half);
    ldmatrix_x4<!k_major>(words, tile + offset);
  }
};

// Brings the tiles of one operand along k into SMEM, each in `slices` equal parts; done by all threads of the CTA.
//
// `copy_bytes` of 16, 8 or 4 is the width of asynchronous copies, which the strides and the alignment must allow. With
// 2, elements are loaded one by one, whatever the strides, and cross registers in chunks of 16 bytes: `fetch` loads,
// `put` stores. What lies outside the matrix becomes zero and is never read.
template <class Tile, class Input, int copy_bytes, int threads, int slices>
class TileCopy {
  static constexpr bool by_element = copy_bytes == 2;
  static constexpr int elements = by_element ? 8 : copy_bytes / 2;  // of one copy
  static constexpr int copies_per_row = Tile::columns / elements;
  static constexpr int rows_per_pass = threads / copies_per_row;
  static constexpr int passes = Tile::rows / rows_per_pass / slices;  // of one slice
  static_assert(copies_per_row * elements == Tile::columns);
  static_assert(rows_per_pass * copies_per_row == threads);
  static_assert(rows_per_pass * passes * slices == Tile::rows);

  const Input* const origin;  // element (0, 0) of the matrix
  const Input* source;        // this thread's first element of the next pass
  const int64_t row_stride, column_stride;
  const int row, column;        // where this thread starts in the tile
  int rows_left, columns_left;  // of the matrix, from there
  uint32_t staged[passes][4];   // by element: the chunks between fetch and put

 public:
  // The CTA's tiles start at row or column `mn_start` of the matrix, whose size is (mn, k).
  __device__ __forceinline__ TileCopy(const Input* matrix, int64_t mn_stride, int64_t k_stride,
                                      int mn_start, int mn, int k)
      : origin(matrix),
        row_stride(Tile::k_major ? mn_stride : k_stride),
        column_stride(Tile::k_major ? k_stride : mn_stride),
        row(threadIdx.x / copies_per_row),
        column(threadIdx.x % copies_per_row * elements),
        rows_left((Tile::k_major ? mn - mn_start : k) - row),
        columns_left((Tile::k_major ? k : mn - mn_start) - column) {
    source = matrix + mn_start * mn_stride + row * row_stride + column * column_stride;
  }

  // Starts the next slice; slices come in order, tile after tile, also beyond the end of k.
  __device__ __forceinline__ void fetch(int slice, uint32_t tile) {
#pragma unroll
    for (int pass = 0; pass < passes; ++pass) {
      const int first_row = (slice * passes + pass) * rows_per_pass;
      const int valid = first_row < rows_left ? minimum(columns_left, elements) : 0;
      if constexpr (by_element) {
        gather(staged[pass], valid);
      } else {
        cp_async<copy_bytes>(tile + Tile::Layout::offset(row + first_row, column),
                             valid > 0 ? source : origin,
                             valid > 0 ? valid * int(sizeof(Input)) : 0);
      }
      step(source, rows_per_pass * row_stride);
    }
    if (slice == slices - 1) advance();
  }

  // Stores what `fetch` of the same slice loaded by element.
  __device__ __forceinline__ void put(int slice, uint32_t tile) const {
    if constexpr (by_element) {
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        const int first_row = (slice * passes + pass) * rows_per_pass;
        store_shared(tile + Tile::Layout::offset(row + first_row, column), staged[pass]);
      }
    }
  }

 private:
  // The empty assembly keeps the compiler from holding every multiple of a stride in registers throughout the loop.
  static __device__ __forceinline__ void step(const Input*& pointer, int64_t stride) {
    pointer += stride;
    asm volatile("" : "+l"(pointer));
  }

  __device__ __forceinline__ void gather(uint32_t (&chunk)[4], int valid) const {
    const Input* element = source;
#pragma unroll
    for (int i = 0; i < elements; ++i) {
      const uint32_t bits = i < valid ? element->bits : 0;
      chunk[i / 2] = i % 2 ? chunk[i / 2] | bits << 16 : bits;
      step(element, column_stride);
    }
  }

  // From behind the last row of one tile to the first row of the next along k.
  __device__ __forceinline__ void advance() {
    if constexpr (Tile::k_major) {
      source += Tile::columns * column_stride - Tile::rows * row_stride;
      columns_left -= Tile::columns;
    } else {
      rows_left -= Tile::rows;
    }
  }
};

}  // namespace tilewright
