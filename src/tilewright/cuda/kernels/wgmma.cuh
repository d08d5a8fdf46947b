// Persistent, warp-specialized GEMM on Hopper's asynchronous tensor cores (sm_90a): bf16, fp16 and
// fp8 with fp32 accumulation, int8 with int32.
//
// One producer thread brings tiles of A and B into a ring of SMEM slots by TMA. Up to three
// consumer warpgroups multiply them with wgmma and write the results to out; each takes its own
// rows of the CTA's tile, or two take whole tiles by turns (ping_pong). The CTAs of a cluster
// compute neighboring tiles in step and share loads: a tile of A is multicast to cluster_n of them
// and a tile of B to cluster_m, and they load k-blocks by turns. CTAs stay and take tile after
// tile; loads run ahead into the next tile.
//
//   producer   load load load load ... load load load load ...
//   consumer        mul  mul  mul  ... mul  mul  mul  mul  ...
//                                      store previous tile        (overlap)
//
//   consumer 0      mul  mul  mul  ... store ...                mul  mul  ...    (ping_pong)
//   consumer 1                         mul  mul  mul  mul  ...  store ...
//
// Where tiles are few, split_k CTAs of a cluster make each tile, each the sum over a part of k.
//
// The grid may start while an earlier one still runs: it sets up its barriers, and waits for the
// other's end before the first access to an operand (programmatic dependent launch).
//
// docs/memory-rules.md has the rules by number.
#pragma once
#include "epilogue/cluster_sum.cuh"
#include "epilogue/warp_finish.cuh"
#include "epilogue/warp_output.cuh"
#include "mainloop/pipeline.cuh"
#include "mainloop/turns.cuh"
#include "mainloop/wgmma_consumer.cuh"
#include "mainloop/wgmma_producer.cuh"
#include "mainloop/wgmma_promotion.cuh"
#include "mainloop/wgmma_scales.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/cta_barrier.cuh"
#include "ptx/elect.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/cluster_place.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// Consumer warpgroup number `index`: it multiplies its rows of each tile, or those of every other
// tile, and writes the results to out.
template <class Config>
__device__ __forceinline__ void consume(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const ClusterPlace<Config>& place,
                                        const TileLoop<Config>& tiles, const TensorMap* map_out,
                                        const GemmParameters& parameters, int index) {
  constexpr int row_blocks = Config::row_blocks, last = row_blocks - 1;
  const int warp = threadIdx.x / 32 % 4;
  const int part = Config::ping_pong ? 0 : index;
  uint32_t staging = 0;
  if constexpr (Config::tma_epilogue) {
    staging = shared_address(storage.staging) +
              (index * 4 + warp) * Config::store_buffers * Config::store_bytes;
  }
  Consumer<Config> consumer(storage, pipeline, part);
  WarpOutput<Config> output(parameters, map_out, staging);
  const WarpFinish<Config> finish(parameters);
  Totals<Config> totals(parameters);
  auto locate = [&](uint32_t tile_index) {
    const auto tile = tiles.locate(tile_index);
    return WarpTile{tile.row + part * row_blocks * 64 + warp * 16,
                    tile.column / sums_per_column<Config> + place.part * Config::out_columns,
                    tile.batch};
  };
  auto row_block = [](const WarpTile& tile, int i) {
    return WarpTile{tile.row + i * 64, tile.column, tile.batch};
  };

  wait_for_earlier_grids();
  typename Config::Sum accumulators[row_blocks][Config::tile_n / 2];
  typename WarpLayout<Config>::Words words;
  WarpTile tile;
  auto begin_promotion = [&](uint32_t tile_index) {  // behind the first wgmmas
    if constexpr (HasBlockScales<Config>) {
      consumer.promotion.begin(tiles.locate(tile_index).column);
    }
  };
  auto begin = [&](uint32_t tile_index) {  // behind them, too
    if constexpr (!Config::overlap) begin_promotion(tile_index);
    tile = locate(tile_index);
    prefetch_columns<Config>(parameters, tile, totals);
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
      prefetch_rows<Config>(parameters, row_block(tile, i), totals);
    }
  };
  if constexpr (Config::overlap) {
    // The last row block is held back, packed, and stored behind the next tile's first wgmmas; an
    // earlier one is stored behind the last wgmmas of the tile.
    bool holding = false;
    auto store_held = [&] {
      if (holding) output.store(words, row_block(tile, last));
    };
    tiles.for_each_tile([&](uint32_t tile_index) {
      consumer.multiply_tile(accumulators, tiles.k_blocks, [&] {
        begin_promotion(tile_index);
        store_held();
        begin(tile_index);
      });
      const WarpColumns<Config> columns(parameters, tile, totals);
      if constexpr (row_blocks == 2) {
        const WarpRows<Config> rows(parameters, tile, totals);
        consumer.template wait<1>(accumulators);
        finish(words, accumulators[0], tile, columns, rows);
        output.store(words, tile);
      }
      const WarpRows<Config> rows(parameters, row_block(tile, last), totals);
      consumer.template wait<0>(accumulators);
      finish(words, accumulators[last], row_block(tile, last), columns, rows);
      holding = true;
    });
    store_held();
  } else {
    Turns turns(index);
    tiles.for_each_tile([&](uint32_t tile_index) {
      if constexpr (Config::ping_pong) {
        if (!turns.take()) return consumer.skip_tile(tiles.k_blocks);
      }
      consumer.multiply_tile(accumulators, tiles.k_blocks, [&] { begin(tile_index); });
      if constexpr (Config::ping_pong) {
        if (!tiles.is_last(tile_index)) turns.pass();
      }
      const WarpColumns<Config> columns(parameters, tile, totals);
      consumer.template wait<0>(accumulators);
      auto write = [&](const auto& sums) {
#pragma unroll
        for (int i = 0; i < row_blocks; ++i) {
          const WarpTile at = row_block(tile, i);
          const WarpRows<Config> rows(parameters, at, totals);
          finish(words, sums[i], at, columns, rows);
          output.store(words, at);
        }
      };
      if constexpr (Config::split_k > 1) {
        typename Config::Sum sums[row_blocks][Config::out_columns / 2];
        ClusterSum<Config>(storage, place).exchange(sums, accumulators);
        write(sums);
      } else {
        write(accumulators);
      }
    });
  }
  output.drain();
}

template <class Config>
__device__ __forceinline__ void run_wgmma(const TensorMap& map_a, const TensorMap& map_b,
                                          const TensorMap* map_out,
                                          const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  static_assert(sizeof(Storage<Config>) == Config::smem_bytes, "wgmma/config.py and wgmma.cuh");
  static_assert(Config::k_spans * OperandA<Config>::bytes == Config::a_bytes &&
                Config::k_spans * OperandB<Config>::bytes == Config::b_bytes);
  Storage<Config>& storage = *reinterpret_cast<Storage<Config>*>(smem);
  const ClusterPlace<Config> place;
  Pipeline<Config> pipeline(shared_address(storage.full), shared_address(storage.empty));
  const TileLoop<Config> tiles(place, parameters);

  constexpr int consumer_warps = Config::consumers * 4;
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);  // of which the compiler knows
  if (warp == consumer_warps && elected()) {
    if (shared_address(smem) % 1024 != 0) __trap();  // swizzled tiles need it
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (Config::tma_epilogue) prefetch_tensor_map(*map_out);
    pipeline.init(Config::sharers);
    if constexpr (HasBlockScales<Config>) ScaleProducer<Config>(storage).init(Config::sharers);
    if constexpr (Config::split_k > 1) ClusterSum<Config>(storage, place).init();
  }
  if constexpr (place.size > 1) place.sync();

  if (warp >= consumer_warps) {
    // The barriers exist, and the producer need not wait until the others know.
    if (HasBlockScales<Config> && place.size == 1 && warp > consumer_warps) {
      cta_sync<0, Config::threads>();
    } else {
      if constexpr (place.size == 1) cta_arrive<0, Config::threads>();
    }
    if constexpr (Config::moves_registers) release_registers<Config::producer_registers>();
    if (warp == consumer_warps) {
      if (elected()) produce(storage, pipeline, place, tiles, map_a, map_b, parameters);
    } else if constexpr (HasBlockScales<Config>) {
      const int number = warp - consumer_warps - 1;
      if (number < ScaleProducer<Config>::warps) {
        ScaleProducer<Config>(storage).produce(tiles, parameters, number * 32 + threadIdx.x % 32);
      }
    }
    __syncwarp();
  } else {
    if constexpr (place.size == 1) cta_sync<0, Config::threads>();
    if constexpr (Config::moves_registers) acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    consume(storage, pipeline, place, tiles, map_out, parameters, warp / 4);
  }
}

// The kernel with tma_epilogue, which takes the tensor map of out too.
template <class Config>
__device__ __forceinline__ void wgmma_kernel(const TensorMap& map_a, const TensorMap& map_b,
                                             const TensorMap& map_out,
                                             const GemmParameters& parameters) {
  run_wgmma<Config>(map_a, map_b, &map_out, parameters);
}

template <class Config>
__device__ __forceinline__ void wgmma_kernel(const TensorMap& map_a, const TensorMap& map_b,
                                             const GemmParameters& parameters) {
  run_wgmma<Config>(map_a, map_b, nullptr, parameters);
}

}  // namespace tilewright
