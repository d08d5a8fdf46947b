// The producer of a warp-specialized kernel: one thread that brings tiles of A and B by TMA, which
// the CTAs of a cluster multicast to each other by turns (sm_90).
#pragma once
#include "epilogue/expression.cuh"
#include "mainloop/pipeline.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/l2_policy.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/cluster_place.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// One operand of a tile, as this CTA loads it: the k-blocks whose turn it is, for all of the `ctas`
// CTAs that share it. stacked: half of the tile is from each half of the operand.
template <class Operand, int ctas, bool stacked = false>
struct Source {
  static constexpr int parts = stacked ? 2 : 1;
  const TensorMap& map;
  bool once;         // nothing of it is read twice
  uint64_t policy;   // of L2, if so
  int turn;          // of this CTA
  uint16_t sharing;  // ranks of the CTAs
  int half = 0;      // of the operand's extent along mn, if it is stacked

  // Where a part of the tile begins.
  __device__ __forceinline__ int begin_of(int part, int mn) const {
    return stacked ? mn / 2 + part * half : mn;
  }

  // Calls box(bytes from the start of the tile, x, y) for the boxes of `spans` spans from k on.
  // K-major spans are one box for each part, MN-major ones as many as they have panels.
  template <int spans, class Box>
  __device__ __forceinline__ void for_each_box(int mn, int k_block, int k, Box box) const {
    if (k_block % ctas != turn) return;
#pragma unroll
    for (int span = 0; span < spans; ++span) {
      if constexpr (Operand::mn_major) {
        constexpr int panels = Operand::panels / parts;  // of a part
        static_assert(panels * parts == Operand::panels);
#pragma unroll
        for (int panel = 0; panel < Operand::panels; ++panel) {
          box(span * Operand::bytes + panel * Operand::panel_bytes,
              begin_of(panel / panels, mn) + panel % panels * Operand::panel_rows,
              k + span * Operand::tile_k);
        }
      } else {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          box(span * Operand::bytes + part * (Operand::bytes / parts), k + span * Operand::tile_k,
              begin_of(part, mn));
        }
      }
    }
  }

  template <int spans>
  __device__ __forceinline__ void load(uint32_t tile, int mn, int k_block, int k, int batch,
                                       uint32_t barrier) const {
    for_each_box<spans>(mn, k_block, k, [&](uint32_t at, int x, int y) {
      if constexpr (ctas > 1) {
        if (once) {
          tma_load_multicast(tile + at, map, x, y, batch, barrier, sharing, policy);
        } else {
          tma_load_multicast(tile + at, map, x, y, batch, barrier, sharing);
        }
      } else {
        if (once) {
          tma_load(tile + at, map, x, y, batch, barrier, policy);
        } else {
          tma_load(tile + at, map, x, y, batch, barrier);
        }
      }
    });
  }

  template <int spans>
  __device__ __forceinline__ void prefetch(int mn, int k_block, int k, int batch) const {
    for_each_box<spans>(mn, k_block, k,
                        [&](uint32_t, int x, int y) { tma_prefetch(map, x, y, batch); });
  }
};

// The producer; one thread executes it.
template <class Config>
__device__ __forceinline__ void produce(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const ClusterPlace<Config>& place,
                                        const TileLoop<Config>& tiles, const TensorMap& map_a,
                                        const TensorMap& map_b, const GemmParameters& parameters) {
  uint16_t sharing_a = 0, sharing_b = 0;  // CTAs, by rank
  for (int n = 0; n < Config::cluster_n; ++n) sharing_a |= 1 << place.rank_at(place.m, n);
  for (int m = 0; m < Config::cluster_m; ++m) sharing_b |= 1 << place.rank_at(m, place.n);
  const uint64_t policy = evict_first();
  const Source<OperandA<Config>, Config::cluster_n> a{map_a, tiles.reads_a_once(), policy, place.n,
                                                      sharing_a};
  const Source<OperandB<Config>, Config::cluster_m, IsStacked<Config>> b{
      map_b, tiles.reads_b_once(), policy, place.m, sharing_b, parameters.n / 2};
  const bool batched = parameters.batch_count > 1;
  const bool a_broadcast = batched && is_broadcast(parameters, parameters.a);
  const bool b_broadcast = batched && is_broadcast(parameters, parameters.b);
  const uint32_t slots = shared_address(storage.slots);
  constexpr int spans = Config::k_spans;

  RingPosition<Config::stages> position;
  tiles.for_each_tile([&](uint32_t index) {
    const auto tile = tiles.locate(index);
    const int batch_a = a_broadcast ? 0 : tile.batch, batch_b = b_broadcast ? 0 : tile.batch;
    wait_for_earlier_grids();  // here, since all before it can be done meanwhile
#pragma unroll 1
    for (int k_block = 0; k_block < tiles.k_blocks; ++k_block) {
      const int k = tiles.k_of(k_block);
      const uint32_t barrier = pipeline.begin_fill(position);
      const uint32_t slot = slots + position.slot * Config::stage_bytes;
      a.template load<spans>(slot, tile.row, k_block, k, batch_a, barrier);
      b.template load<spans>(slot + Config::a_bytes, tile.column, k_block, k, batch_b, barrier);
      if (k_block == Config::stages - 1) {
        // The ring is full: what is read once, and so comes from GMEM, starts on its way to L2.
#pragma unroll 1
        for (int ahead = 1; ahead <= minimum(parameters.prefetch, tiles.k_blocks - 1 - k_block);
             ++ahead) {
          const int k_ahead = tiles.k_of(k_block + ahead);
          if (a.once) a.template prefetch<spans>(tile.row, k_block + ahead, k_ahead, batch_a);
          if (b.once) b.template prefetch<spans>(tile.column, k_block + ahead, k_ahead, batch_b);
        }
      }
      position.advance();
    }
  });
  launch_next_grid();
  pipeline.drain(position);
}

}  // namespace tilewright
