// Tiles in SMEM whose rows follow each other, with or without a gap.
#pragma once
#include "types.cuh"

namespace tilewright {

// A tile of 2-byte elements, row-major with `columns` per row and `padding` unused ones behind
// each. With 8 of these, 16 bytes, a row starts four banks after where the one above it starts, if
// rows are multiples of 128 bytes; without, all rows start in one bank:
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
