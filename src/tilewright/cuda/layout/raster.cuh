// The order in which CTAs take the tiles of out. model/raster.py has the same arithmetic in Python.
#pragma once
#include "types.cuh"

namespace tilewright {

struct TileIndex {
  int m, n;  // counted in tiles
  int batch;
};

// Tile number `index` of tiles_m x tiles_n x batches, batches outermost. Within a batch, bands of
// `group_m` tile rows are walked column by column, so the CTAs of one wave share rows of A and
// columns of B in L2:
//
//   group_m = 2    0 2 4 6
//                  1 3 5 7
//                  8 10 ...
__device__ __forceinline__ TileIndex grouped_tile(uint32_t index, int tiles_m, int tiles_n,
                                                  int group_m) {
  group_m = minimum(group_m, tiles_m);  // no overflow: a band has no more tiles than the batch
  const uint32_t tiles = static_cast<uint32_t>(tiles_m) * tiles_n;
  const uint32_t in_batch = index % tiles;
  const uint32_t band_tiles = static_cast<uint32_t>(group_m) * tiles_n;
  const int first_m = in_batch / band_tiles * group_m;
  const uint32_t in_band = in_batch % band_tiles;
  const uint32_t height = minimum(group_m, tiles_m - first_m);
  return {static_cast<int>(first_m + in_band % height), static_cast<int>(in_band / height),
          static_cast<int>(index / tiles)};
}

// Row by row:
//
//   0 1 2 3
//   4 5 6 7
__device__ __forceinline__ TileIndex row_major_tile(uint32_t index, int tiles_m, int tiles_n) {
  return {static_cast<int>(index / tiles_n), static_cast<int>(index % tiles_n), 0};
}

// Blocks of block_m x block_n tiles, cut off at the edges, row by row, and row by row within each.
// If a block is a wave, the wave reads the fewest rows of A and columns of B.
//
//   block_m = block_n = 2    0 1  4 5
//                            2 3  6 7
//                            8 9 ...
__device__ __forceinline__ TileIndex blocked_tile(uint32_t index, int tiles_m, int tiles_n,
                                                  int block_m, int block_n) {
  const uint32_t band_tiles = static_cast<uint32_t>(minimum(block_m, tiles_m)) * tiles_n;
  const int first_m = index / band_tiles * block_m;
  const int height = minimum(block_m, tiles_m - first_m);
  const uint32_t in_band = index % band_tiles;
  const uint32_t block_tiles = static_cast<uint32_t>(height) * minimum(block_n, tiles_n);
  const int first_n = in_band / block_tiles * block_n;
  const int width = minimum(block_n, tiles_n - first_n);
  const uint32_t in_block = in_band % block_tiles;
  return {static_cast<int>(first_m + in_block / width),
          static_cast<int>(first_n + in_block % width), 0};
}

// Along Hilbert's curve through the smallest square of 2^i x 2^i tiles that covers all; it skips
// tiles that do not exist. The curve goes through the four quadrants of a square one after another.
// The first is transposed; the last is transposed and turned by 180 degrees. So any run of it stays
// close together, however long, and so do the rows of A and columns of B that a wave reads.
//
//    0 | 1       0  3  4  5
//   ---+---      1  2  7  6
//    3 | 2      14 13  8  9
//               15 12 11 10
__device__ __forceinline__ TileIndex hilbert_tile(uint32_t index, int tiles_m, int tiles_n) {
  int m = 0, n = 0, rows = tiles_m, columns = tiles_n;  // a square's start, and its existing part
  bool transposed = false, turned = false;
  for (int side = (1 << (32 - __clz(maximum(tiles_m, tiles_n) - 1))) / 2; side > 0; side /= 2) {
    const int upper = minimum(rows, side), left = minimum(columns, side);
    // The rows and columns of the curve's first quadrant, and the others.
    const uint32_t near_m = turned ? rows - upper : upper, far_m = rows - near_m;
    const uint32_t near_n = turned ? columns - left : left, far_n = columns - near_n;
    const uint32_t begin_1 = near_m * near_n;
    const uint32_t begin_2 = begin_1 + (transposed ? far_m * near_n : near_m * far_n);
    const uint32_t begin_3 = begin_2 + far_m * far_n;
    const bool not_0 = index >= begin_1, not_1 = index >= begin_2, is_3 = index >= begin_3;
    index -= is_3 ? begin_3 : not_1 ? begin_2 : not_0 ? begin_1 : 0;
    // Quadrants 2 and 3 are the far ones along m, 1 and 2 along n; if transposed, the reverse.
    const bool middle = not_0 && !is_3;
    const bool lower = (transposed ? middle : not_1) != turned;
    const bool right = (transposed ? not_1 : middle) != turned;
    m += lower ? side : 0;
    n += right ? side : 0;
    rows = lower ? rows - upper : upper;
    columns = right ? columns - left : left;
    transposed = transposed == middle;
    turned = turned != is_3;
  }
  return {m, n, 0};
}

// The values of `Config::schedule`.
enum TileOrder { row_major, blocked, hilbert };

// Tile number `index` of tiles_m x tiles_n. Config names: schedule, block_m, block_n.
template <class Config>
__device__ __forceinline__ TileIndex scheduled_tile(uint32_t index, int tiles_m, int tiles_n) {
  if constexpr (Config::schedule == hilbert) {
    return hilbert_tile(index, tiles_m, tiles_n);
  } else if constexpr (Config::schedule == blocked) {
    return blocked_tile(index, tiles_m, tiles_n, Config::block_m, Config::block_n);
  } else {
    return row_major_tile(index, tiles_m, tiles_n);
  }
}

}  // namespace tilewright
