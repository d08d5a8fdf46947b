// Tiles in SMEM whose rows follow each other, with or without a gap.
#pragma once
#include "types.cuh"

namespace tilewright {

// A tile of 2-byte elements, row-major with `columns` per row and `padding` unused ones after each
// row. If rows are multiples of 128 bytes, all rows start in one bank without padding. With 8
// elements of padding, 16 bytes, each row starts four banks after the one above it:
//
//   banks, in fours     0 1 2 3 4 5 6 7          0 1 2 3 4 5 6 7
//                 r 0 | 0 1 2 3 4 5 6 7    r 0 | 0 1 2 3 4 5 6 7
//                 r 1 | 0 1 2 3 4 5 6 7    r 1 | - 0 1 2 3 4 5 6
//                 r 2 | 0 1 2 3 4 5 6 7    r 2 | 7 - 0 1 2 3 4 5
template <int columns, int padding>
struct PaddedRows {
  static constexpr int stride = columns + padding;  // elements from row to row
  static_assert(stride % 8 == 0);

  // Bytes from the start of the tile to element (row, column).
  static __device__ __forceinline__ uint32_t offset(uint32_t row, uint32_t column) {
    return (row * stride + column) * 2;
  }
};

}  // namespace tilewright
