// Persistent scheduling: CTAs stay and take tile after tile (sm_90).
#pragma once
#include "layout/raster.cuh"
#include "parameters.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

// The tiles that this CTA computes, one after another, in step with the others of its cluster.
template <class Config>
class TileLoop {
  using Place = ClusterPlace<Config>;
  Place place;
  int clusters_m, clusters_n;  // number of clusters' tiles along m and n
  int batches;

 public:
  struct Tile {
    int row, column, batch;  // place of its first element in out
  };

  __device__ __forceinline__ TileLoop(const Place& cluster_place, const GemmParameters& parameters)
      : place(cluster_place),
        clusters_m(ceil_div(parameters.m, Config::tile_m * Config::cluster_m)),
        clusters_n(ceil_div(parameters.n, Config::tile_n * Config::cluster_n)),
        batches(parameters.batch_count) {}

  template <class Body>
  __device__ __forceinline__ void for_each_tile(Body body) const {
    const uint32_t tiles = static_cast<uint32_t>(clusters_m) * clusters_n * batches;
    for (uint32_t i = blockIdx.x / Place::size; i < tiles; i += gridDim.x / Place::size) {
      const TileIndex tile = grouped_tile(i, clusters_m, clusters_n, Config::group_m);
      body(Tile{(tile.m * Config::cluster_m + place.m) * Config::tile_m,
                (tile.n * Config::cluster_n + place.n) * Config::tile_n, tile.batch});
    }
  }
};

}  // namespace tilewright
