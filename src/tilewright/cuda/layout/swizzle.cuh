// XOR swizzle of tiles in SMEM: no two of the eight 16-byte chunks that one access phase touches
// share banks, whether the phase walks along a row (copies) or down a column of chunks (ldmatrix).
#pragma once
#include "types.cuh"

namespace tilewright {

// A tile, row-major with `columns` elements per row, of 2 bytes unless `bytes` says otherwise. Rows
// are cut into chunks of 16 bytes; chunk c of row r is kept at position c ^ phase(r). Rows of 128
// bytes (phase is r % 8), and of 64 bytes (r / 2 % 4; two rows fill the 32 banks), chunk numbers in
// the order of the banks:
//
//   r 0 | 0 1 2 3 4 5 6 7        r 0, 1 | 0 1 2 3  0 1 2 3
//   r 1 | 1 0 3 2 5 4 7 6        r 2, 3 | 1 0 3 2  1 0 3 2
//   r 2 | 2 3 0 1 6 7 4 5        r 4, 5 | 2 3 0 1  2 3 0 1
//   r 3 | 3 2 1 0 7 6 5 4        r 6, 7 | 3 2 1 0  3 2 1 0
template <int columns, int bytes = 2>
struct SwizzledRows {
  static constexpr uint32_t of_chunk = 16 / bytes;  // elements
  static constexpr uint32_t chunks = columns / of_chunk;
  static constexpr uint32_t span = chunks < 8 ? chunks : 8;  // chunks that trade places
  static constexpr uint32_t rows_per_phase = 8 / span;
  static constexpr int period = 8;  // rows after which places repeat
  static_assert(columns % of_chunk == 0 && 8 % span == 0 && chunks % span == 0);

  // Bytes from the start of the tile, which is aligned to 128 bytes, to element (row, column).
  static __device__ __forceinline__ uint32_t offset(uint32_t row, uint32_t column) {
    const uint32_t chunk = column / of_chunk ^ row / rows_per_phase % span;
    return row * (bytes * columns) + chunk * 16 + column % of_chunk * bytes;
  }
};

}  // namespace tilewright
