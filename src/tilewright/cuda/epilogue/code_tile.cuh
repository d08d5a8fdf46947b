// A tile of codes of 8 bits in SMEM, from which they are stored, also transposed, 16 bytes at a
// time where memory allows.
//
// A row of a tile of 128 x 128 is 32 words. A thread that stores 16 rows of 4 columns reads 16 of
// these, and neighboring lanes have the next 16 rows, so that they store whole lines. The words are
// swizzled, so that these lanes read different banks:
//
//   word of row r and columns 4c to 4c + 3, at 32 r + (c ^ 4 (r / 16 % 8))
#pragma once
#include "layout/piece.cuh"
#include "types.cuh"

namespace tilewright {

// Config names: tile_m, tile_n, threads; transposed: whether columns are stored too; direct_bytes,
// transposed_bytes: of a store of rows, and of columns.
template <class Config>
class CodeTile {
  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n;
  static constexpr int threads = Config::threads;
  static_assert(!Config::transposed || (tile_m == 128 && tile_n == 128), "swizzled for such tiles");

 public:
  // Of the code in SMEM; `sixteenth`: which 16 rows of the tile the row belongs to.
  static __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t column,
                                                   uint32_t sixteenth) {
    return row * tile_n + (Config::transposed ? column ^ sixteenth * 16 : column);
  }

  // Those of the tile that are among so many rows and columns.
  static __device__ __forceinline__ void store_rows(const uint8_t* from, uint8_t* codes,
                                                    int64_t row_stride, int rows, int columns) {
    constexpr int bytes = Config::direct_bytes, pieces = tile_n / bytes;
#pragma unroll(minimum(tile_m* pieces / threads, 8))
    for (uint32_t piece = threadIdx.x; piece < tile_m * pieces; piece += threads) {
      const int row = piece / pieces, column = piece % pieces * bytes;
      if (row < rows && column < columns) {
        copy_piece<bytes>(codes + row * row_stride + column,
                          &from[place(row, column, piece / pieces / 16)]);
      }
    }
  }

  // The same transposed: each column becomes a row.
  static __device__ __forceinline__ void store_columns(const uint8_t* from, uint8_t* codes,
                                                       int64_t row_stride, int rows, int columns) {
    constexpr int bytes = Config::transposed_bytes, blocks = tile_m / 16;
    for (uint32_t part = threadIdx.x; part < blocks * tile_n / 4; part += threads) {
      const int row = part % blocks * 16, column = part / blocks * 4;
      uint32_t lines[4][4];  // 16 rows of each of the 4 columns
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint32_t at = place(row + 4 * i + j, column, part % blocks);
          copy_piece<4>(&four[j], &from[at]);
        }
        const uint32_t low_01 = __byte_perm(four[0], four[1], 0x5140);
        const uint32_t low_23 = __byte_perm(four[2], four[3], 0x5140);
        const uint32_t high_01 = __byte_perm(four[0], four[1], 0x7362);
        const uint32_t high_23 = __byte_perm(four[2], four[3], 0x7362);
        lines[0][i] = __byte_perm(low_01, low_23, 0x5410);
        lines[1][i] = __byte_perm(low_01, low_23, 0x7632);
        lines[2][i] = __byte_perm(high_01, high_23, 0x5410);
        lines[3][i] = __byte_perm(high_01, high_23, 0x7632);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (column + j >= columns) break;
        uint8_t* const line = codes + (column + j) * row_stride + row;
#pragma unroll
        for (int at = 0; at < 16; at += bytes) {
          if (row + at >= rows) break;
          if constexpr (bytes >= 4) {
            copy_piece<bytes>(line + at, &lines[j][at / 4]);
          } else {
            const uint32_t piece = lines[j][at / 4] >> at % 4 * 8;
            copy_piece<bytes>(line + at, &piece);
          }
        }
      }
    }
  }
};

}  // namespace tilewright
