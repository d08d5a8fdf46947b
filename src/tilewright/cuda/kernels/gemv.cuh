// Few rows: out = A B where A, the activations, has so few rows that the time is that of reading B,
// the weights (sm_90).
//
// A CTA makes one (tile_m, tile_n) tile of out. Its warps take the steps of k in turn, and so do
// the CTAs of a cluster, if split_k of them share a tile. Each warp keeps the loads of `in_flight`
// steps under way, straight to the registers of which mma.sync makes its products, or the CUDA
// cores those of fp32:
//
//   GMEM --16 bytes a lane--> fragments --mma.sync--> sums of a warp --SMEM--> sums of the CTA
//   --SMEM of the cluster--> sums --> epilogue
//
// What is in flight decides the rate. Memory answers after some 800 ns on an H200, so 4.6 TB/s need
// 28 KB under way on each of its 132 SMs at any time. A CTA of 8 warps asks for 32 KB with 8 loads
// a lane, in 32 registers, and then waits: two or three of them on an SM, which `ctas` makes room
// for, leave no moment in which nothing is asked for. In SASS these loads are one run of 8
// LDG.E.128.
//
// All sums are added in an order that the Config fixes: the end of k and then a warp's steps as
// they come, its parts of k, warps by number, and CTAs by rank.
#pragma once
#include "epilogue/epilogue.cuh"
#include "layout/raster.cuh"
#include "mainloop/gemv_operands.cuh"
#include "mainloop/gemv_sums.cuh"
#include "parameters.cuh"
#include "ptx/cluster.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/st_cluster.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

// The sums of a tile: of the warps in SMEM, and of the CTAs of a cluster.
template <class Config>
class TileSums {
  static constexpr int warps = Config::threads / 32;
  static constexpr int pitch = Config::tile_n + 4;  // spreads rows over banks
  static constexpr int row_pairs = Config::tile_n / 2;
  static constexpr int pairs =
      Config::tile_m * row_pairs / Config::split_k;  // of a CTA, in the end
  static constexpr int sums = warps * Config::tile_m * pitch;
  static constexpr int received = Config::split_k > 1 ? Config::tile_m * Config::tile_n : 0;
  static_assert(Config::smem_bytes == (sums + received) * sizeof(float));
  float* smem;
  int part;

  // Of all warps. Pairs are columns 2i and 2i + 1, numbered row by row.
  __device__ __forceinline__ float2 of_cta(int pair) const {
    const float* from = smem + pair / row_pairs * pitch + pair % row_pairs * 2;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) {
      const float2 more = *reinterpret_cast<const float2*>(from + warp * Config::tile_m * pitch);
      sum.x += more.x;
      sum.y += more.y;
    }
    return sum;
  }

  // Where the sums of a pair are received from the CTA of a part.
  __device__ __forceinline__ float2* received_from(int sender, int pair) const {
    return reinterpret_cast<float2*>(smem + sums) + sender * pairs + pair % pairs;
  }

  __device__ __forceinline__ float2 of_cluster(int pair) const {
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int sender = 0; sender < Config::split_k; ++sender) {
      const float2 more = *received_from(sender, pair);
      sum.x += more.x;
      sum.y += more.y;
    }
    return sum;
  }

 public:
  __device__ __forceinline__ TileSums(float* memory, int own_part) : smem(memory), part(own_part) {}

  // Calls body(row, column, sums) for the pairs of the tile that this CTA finishes. By all threads.
  template <class Body>
  __device__ __forceinline__ void finish(const WarpSums<Config>& own, Body body) const {
    own.template put<pitch>(smem + threadIdx.x / 32 * Config::tile_m * pitch);
    __syncthreads();
    if constexpr (Config::split_k > 1) {
      wait_for_starts();
      for (int pair = threadIdx.x; pair < pairs * Config::split_k; pair += Config::threads) {
        store_cluster(cluster_address(shared_address(received_from(part, pair)), pair / pairs),
                      of_cta(pair));
      }
      cluster_sync();
    }
    for (int i = threadIdx.x; i < pairs; i += Config::threads) {
      const int pair = part * pairs + i;
      body(pair / row_pairs, pair % row_pairs * 2,
           Config::split_k > 1 ? of_cluster(pair) : of_cta(pair));
    }
  }
};

// Adds a step in which k begins or ends: it has `left` elements from there on. It lies so many
// steps ahead.
template <class Config>
__device__ __forceinline__ void add_end(WarpSums<Config>& sums, Activations<Config> activations,
                                        Weights<Config> weights, int ahead, int left) {
  typename Weights<Config>::Words words;
  typename Activations<Config>::Words x;
  weights.skip(ahead);
  activations.skip(ahead);
  weights.load_end(words, left);
  activations.load_end(x, left);
  sums.add(words, x);
}

template <class Config>
__device__ __forceinline__ void gemv_kernel(const GemmParameters& parameters) {
  using X = Activations<Config>;
  using W = Weights<Config>;
  constexpr int warps = Config::threads / 32;
  extern __shared__ __align__(16) unsigned char smem[];

  if constexpr (Config::split_k > 1) announce_start();
  const ClusterPlace<Config> place;
  const int tiles_m = ceil_div(parameters.m, Config::tile_m);
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const TileIndex tile =
      grouped_tile(blockIdx.x / Config::split_k, tiles_m, tiles_n, parameters.batch_count, tiles_m);
  const int first_m = tile.m * Config::tile_m, first_n = tile.n * Config::tile_n;
  const int worker = place.part * warps + threadIdx.x / 32;
  // Loads stay inside of k in all steps below `steps`; if they reach beyond their step, not in step
  // 0.
  constexpr int reach = maximum(X::reach, W::reach);
  const int first = reach > 0 && worker == 0 ? Config::workers : worker;
  X activations(parameters, tile.batch, first_m, first);
  W weights(parameters, tile.batch, first_n, first);
  const int steps = weights.loads ? (parameters.k - reach) / Config::tile_k : 0;
  const int left = parameters.k % Config::tile_k;

  // An earlier grid may still be writing: nothing may be read, but L2 always has what was written
  // last.
  if (Config::b_bytes == 16 && blockIdx.x < parameters.prefetch) {
    W ahead = weights;
#pragma unroll
    for (int step = first; step < first + Config::in_flight * Config::workers;
         step += Config::workers, ahead.skip(Config::workers)) {
      if (step < steps) ahead.prefetch();
    }
  }
  wait_for_earlier_grids();
  launch_next_grid();

  WarpSums<Config> sums;
  // The other steps come first, while registers are free.
  if constexpr (reach > 0) {
#pragma unroll 1
    for (int step = 0; step * Config::tile_k < parameters.k; step = maximum(step + 1, steps)) {
      if (step % Config::workers == worker) {
        add_end(sums, activations, weights, step - first, parameters.k - step * Config::tile_k);
      }
    }
  } else if (left > 0 && steps % Config::workers == worker) {
    add_end(sums, activations, weights, steps - worker, left);
  }
  typename W::Words words[Config::in_flight];
  typename X::Words fragments[Config::reads_ahead ? Config::in_flight : 1];
  int unread = first;  // the next step whose loads are to be issued
#pragma unroll
  for (int slot = 0; slot < Config::in_flight; ++slot, unread += Config::workers) {
    if (unread < steps) {
      weights.load(words[slot]);
      if constexpr (Config::reads_ahead) activations.load(fragments[slot]);
    }
  }

  constexpr int ahead = Config::in_flight * Config::workers;
#pragma unroll 1
  while (unread - ahead < steps) {
#pragma unroll
    for (int slot = 0; slot < Config::in_flight; ++slot, unread += Config::workers) {
      if (unread - ahead < steps) {
        typename X::Words& x = fragments[Config::reads_ahead ? slot : 0];
        if constexpr (!Config::reads_ahead) activations.load(x);
        weights.cut(words[slot]);
        activations.cut(x);
        sums.add(words[slot], x);
      }
      if (unread < steps) {
        weights.load(words[slot]);
        if constexpr (Config::reads_ahead) activations.load(fragments[slot]);
      }
    }
  }

  const Epilogue<Config> epilogue(parameters, tile.batch);
  TileSums<Config>(reinterpret_cast<float*>(smem), place.part)
      .finish(sums, [&](int row, int column, float2 pair) {
        if (first_m + row < parameters.m) {
          epilogue.at_row(first_m + row).store_pair(pair.x, pair.y, first_n + column);
        }
      });
}

}  // namespace tilewright
