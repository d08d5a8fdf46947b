// GEMM on mma.sync tensor cores (sm_80 and later), for every shape, stride and alignment.
//
// One CTA makes one (tile_m, tile_n) tile of out. Along k it works through (tile_m, tile_k) and
// (tile_k, tile_n) tiles of A and B, which pass through a ring of `stages` in SMEM:
//
//   GMEM --cp.async, or element by element--> stage --ldmatrix--> fragments --mma.sync-->
//   accumulators --> epilogue --straight, or as rows gathered in SMEM--> GMEM
//
// Warps share a stage as warps_m x warps_n blocks of (warp_m, warp_n). A k step is 32 bytes. While
// it is multiplied, the fragments of the next step are loaded, and so is one part of the tile that
// is stages - 1 ahead.
#pragma once
#include "epilogue/epilogue.cuh"
#include "layout/raster.cuh"
#include "mainloop/mma_block_sums.cuh"
#include "mainloop/mma_fragments.cuh"
#include "mainloop/operand_tile.cuh"
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
using CursorA =
    TileCursor<typename Config::Input, Config::tile_m, Config::tile_k, Config::a_k_major,
               Config::a_copy_elements, Config::threads, false, Config::a_down ? 1 : 0>;
template <class Config>
using CursorB =
    TileCursor<typename Config::InputB, Config::tile_n, Config::tile_k, Config::b_k_major,
               Config::b_copy_elements, Config::threads, IsStacked<Config>, Config::b_down ? 1 : 0>;

template <class Config>
struct Storage {
  alignas(128) typename Config::Input a[Config::stages][Config::tile_m * Config::tile_k];
  alignas(128) typename Config::InputB b[Config::stages][Config::tile_n * Config::tile_k];
};

template <class Config>
__device__ __forceinline__ void mma_kernel(const GemmParameters& parameters) {
  using InputA = typename Config::Input;
  using InputB = typename Config::InputB;
  constexpr int k_step = Config::k_step, steps = Config::tile_k / k_step;
  // Whether the main loop copies no tiles beyond the end of k: copies of 16 bytes are so few that
  // zeros cost less than branches around them.
  constexpr bool stops_at_k = Config::a_copy_bytes < 16 || Config::b_copy_bytes < 16;
  static_assert(sizeof(Storage<Config>) == Config::smem_bytes);
  extern __shared__ __align__(128) unsigned char smem[];
  const Storage<Config>& storage = *reinterpret_cast<const Storage<Config>*>(smem);

  const int tiles_m = ceil_div(parameters.m, Config::tile_m);
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int tiles_k = ceil_div(parameters.k, Config::tile_k);
  const TileIndex tile =
      grouped_tile(blockIdx.x, tiles_m, tiles_n, parameters.batch_count, Config::group_m);
  const int first_m = tile.m * Config::tile_m, first_n = tile.n * Config::tile_n;
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / Config::warps_n * Config::warp_m;
  const int warp_n = warp % Config::warps_n * Config::warp_n;

  const MatrixParameters &a = parameters.a, &b = parameters.b;
  TileCopy<CursorA<Config>, InputA, Config::a_copy_bytes, steps> copy_a(
      static_cast<const InputA*>(a.pointer) + batch_offset(parameters, a, tile.batch), a.row_stride,
      a.column_stride, first_m, parameters.m, parameters.k);
  TileCopy<CursorB<Config>, InputB, Config::b_copy_bytes, steps> copy_b(
      static_cast<const InputB*>(b.pointer) + batch_offset(parameters, b, tile.batch),
      b.column_stride, b.row_stride, first_n, parameters.n, parameters.k,
      parameters.n / 2 * b.column_stride);

  const auto stage_a = [&](int stage) { return shared_address(storage.a[stage]); };
  const auto stage_b = [&](int stage) { return shared_address(storage.b[stage]); };

  wait_for_earlier_grids();
  // Fill all stages but one.
  for (int stage = 0; stage < Config::stages - 1; ++stage) {
    if (stage < tiles_k) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        copy_a.fetch(step, stage_a(stage));
        copy_b.fetch(step, stage_b(stage));
      }
      copy_a.put(steps - 1, stage_a(stage));
      copy_b.put(steps - 1, stage_b(stage));
    }
    cp_async_commit();
  }
  launch_next_grid();
  cp_async_wait<Config::stages - 2>();
  __syncthreads();

  Accumulators<Config> accumulators;
  BlockSums<Config> sums(parameters, tile.batch, first_m + warp_m, first_n + warp_n);
  Fragments<Config> fragments[2];
  if (tiles_k > 0) fragments[0].load(stage_a(0), stage_b(0), warp_m, warp_n, 0);

  int read = 0, write = Config::stages - 1;
#pragma unroll 1
  for (int k_tile = 0; k_tile < tiles_k; ++k_tile) {
    const int next = read + 1 < Config::stages ? read + 1 : 0;
    const bool ahead = !stops_at_k || k_tile + Config::stages - 1 < tiles_k;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (ahead) {
        copy_a.fetch(step, stage_a(write));
        copy_b.fetch(step, stage_b(write));
      }
      if (step + 1 < steps) {
        fragments[(step + 1) % 2].load(stage_a(read), stage_b(read), warp_m, warp_n,
                                       (step + 1) * k_step);
      } else {
        // After this barrier the next stage has landed for all threads, and all have read this one,
        // so it may be overwritten.
        cp_async_commit();
        cp_async_wait<Config::stages - 2>();
        __syncthreads();
        if (!stops_at_k || k_tile + 1 < tiles_k) {
          fragments[0].load(stage_a(next), stage_b(next), warp_m, warp_n, 0);
        }
      }
      accumulators.multiply(fragments[step % 2]);
      if (ahead) {
        copy_a.put(step, stage_a(write));
        copy_b.put(step, stage_b(write));
      }
    }
    sums.add(accumulators, k_tile, tiles_k);
    write = read;
    read = next;
  }
  sums.finish(accumulators);
  cp_async_wait<0>();  // tiles of zeros: no copy may outlive the CTA

  if constexpr (StagesRows<Config>) __syncthreads();  // the stages are free for rows of out
  accumulators.store(Epilogue<Config>(parameters, tile.batch), first_m + warp_m, first_n + warp_n,
                     smem);
}

}  // namespace tilewright
