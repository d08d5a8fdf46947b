// The order in which CTAs take the tiles of out.
#pragma once
#include "types.cuh"

namespace tilewright {

struct TileIndex {
  int m, n;  // counted in tiles
  int batch;
};

// Tile number `index` of tiles_m x tiles_n x batches, batches outermost. Within a batch, bands of
// `group_m` tile rows are walked column by column, so that the CTAs of one wave share rows of A and
// columns of B in L2:
//
//   group_m = 2    0 2 4 6
//                  1 3 5 7
//                  8 10 ...
__device__ __forceinline__ TileIndex grouped_tile(uint32_t index, int tiles_m, int tiles_n,
                                                  int group_m) {
  group_m = minimum(group_m, tiles_m);  // a band then has no more tiles than the batch: no overflow
  const uint32_t tiles = static_cast<uint32_t>(tiles_m) * tiles_n;
  const uint32_t in_batch = index % tiles;
  const uint32_t band_tiles = static_cast<uint32_t>(group_m) * tiles_n;
  const int first_m = in_batch / band_tiles * group_m;
  const uint32_t in_band = in_batch % band_tiles;
  const uint32_t height = minimum(group_m, tiles_m - first_m);
  return {static_cast<int>(first_m + in_band % height), static_cast<int>(in_band / height),
          static_cast<int>(index / tiles)};
}

}  // namespace tilewright
