// Persistent scheduling: CTAs stay and take tile after tile; and the k-blocks of a tile (sm_90).
#pragma once
#include "layout/raster.cuh"
#include "parameters.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

// The tiles that this CTA computes, one after another, in step with the others of its cluster, and
// the k-blocks that it sums: with split_k, every split_k-th, so that CTAs that share operands with
// neighbors read the same rows at the same time.
template <class Config>
class TileLoop {
  using Place = ClusterPlace<Config>;
  Place place;
  int clusters_m, clusters_n;  // number of clusters' tiles along m and n
  int batches, group_m;

  __device__ __forceinline__ uint32_t all() const {
    return static_cast<uint32_t>(clusters_m) * clusters_n * batches;
  }

 public:
  struct Tile {
    int row, column, batch;  // place of its first element in out
  };

  int k_blocks;  // of each tile that this CTA sums: at least one

  // The first element of one of them.
  __device__ __forceinline__ int k_of(int k_block) const {
    return (k_block * Config::split_k + place.part) * Config::tile_k;
  }

  // Whether every element of A (of B) is read by one cluster only, once.
  __device__ __forceinline__ bool reads_a_once() const { return clusters_n == 1; }
  __device__ __forceinline__ bool reads_b_once() const { return clusters_m == 1; }

  __device__ __forceinline__ TileLoop(const Place& cluster_place, const GemmParameters& parameters)
      : place(cluster_place),
        clusters_m(ceil_div(parameters.m, Config::tile_m * Config::cluster_m)),
        clusters_n(ceil_div(parameters.n, Config::tile_n * Config::cluster_n)),
        batches(parameters.batch_count),
        group_m(parameters.group_m) {
    const int all = ceil_div(parameters.k, Config::tile_k);
    k_blocks = Config::split_k == 1 ? all : (all - place.part - 1) / Config::split_k + 1;
  }

  // Calls body(index) for each tile that this CTA computes.
  template <class Body>
  __device__ __forceinline__ void for_each_tile(Body body) const {
    for (uint32_t i = blockIdx.x / Place::size; i < all(); i += gridDim.x / Place::size) body(i);
  }

  // Whether this CTA computes none after tile `index`.
  __device__ __forceinline__ bool is_last(uint32_t index) const {
    return index + gridDim.x / Place::size >= all();
  }

  // Where tile `index` lies. The divisions take some hundred clocks: they are done where this is
  // called, which the caller chooses so that something else is under way.
  __device__ __forceinline__ Tile locate(uint32_t index) const {
    const TileIndex tile = grouped_tile(index, clusters_m, clusters_n, batches, group_m);
    Tile located{(tile.m * Config::cluster_m + place.m) * Config::tile_m,
                 (tile.n * Config::cluster_n + place.n) * Config::tile_n, tile.batch};
    asm volatile("" : "+r"(located.row), "+r"(located.column), "+r"(located.batch));
    return located;
  }
};

}  // namespace tilewright
