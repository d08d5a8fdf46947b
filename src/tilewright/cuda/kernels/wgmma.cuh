// Persistent, warp-specialized GEMM on Hopper's asynchronous tensor cores (sm_90a), bf16 or fp16
// with fp32 accumulation.
//
// One producer thread brings tiles of A and B into a ring of SMEM slots by TMA. Consumer warpgroups
// multiply them with wgmma and write the results to out; each takes its own rows of the CTA's tile.
// The CTAs of a cluster compute neighboring tiles in step and share loads: a tile of A is loaded in
// cluster_n slices and a tile of B in cluster_m slices. One CTA loads each slice and multicasts it
// to those that need it. CTAs stay and take tile after tile; loads run ahead into the next tile.
//
//   producer   load load load load ... load load load load ...
//   consumer        mul  mul  mul  ... mul  mul  mul  mul  ...
//                                      store previous tile        (overlap)
//
// docs/memory-rules.md has the rules by number.
#pragma once
#include "epilogue/warp_output.cuh"
#include "mainloop/pipeline.cuh"
#include "mainloop/wgmma_consumer.cuh"
#include "mainloop/wgmma_producer.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/cluster_place.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// A consumer warpgroup: it multiplies its rows of each tile and writes the results to out.
template <class Config>
__device__ __forceinline__ void consume(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const TileLoop<Config>& tiles, const TensorMap* map_out,
                                        const GemmParameters& parameters) {
  constexpr int row_blocks = Config::row_blocks, last = row_blocks - 1;
  const int index = threadIdx.x / 128 - 1;  // this consumer's; warpgroup 0 has the producer
  const int warp = threadIdx.x / 32 % 4;
  uint32_t staging = 0;
  if constexpr (Config::tma_epilogue) {
    staging = shared_address(storage.staging) +
              (index * 4 + warp) * Config::store_buffers * Config::store_bytes;
  }
  Consumer<Config> consumer(storage, pipeline, index);
  WarpOutput<Config> output(parameters, map_out, staging);
  const int k_blocks = ceil_div(parameters.k, Config::tile_k);
  auto warp_tile = [&](const auto& tile, int row_block) {
    return WarpTile{tile.row + (index * row_blocks + row_block) * 64 + warp * 16, tile.column,
                    tile.batch};
  };

  float accumulators[row_blocks][Config::tile_n / 2];
  typename WarpOutput<Config>::Words words;
  auto finish = [&](const WarpTile& at, int row_block) {
    output.finish(words, accumulators[row_block], at);
  };
  if constexpr (Config::overlap) {
    // The last row block is packed and held back, and stored during the next tile's first wgmmas.
    // An earlier one is stored during the last wgmmas of this tile.
    WarpTile held;
    bool holding = false;
    auto store_held = [&] {
      if (holding) output.store(words, held);
    };
    tiles.for_each_tile([&](const auto& tile) {
      consumer.multiply_tile(accumulators, k_blocks, store_held);
      if constexpr (row_blocks == 2) {
        consumer.template wait<1>(accumulators);
        finish(warp_tile(tile, 0), 0);
        output.store(words, warp_tile(tile, 0));
      }
      consumer.template wait<0>(accumulators);
      held = warp_tile(tile, last);
      finish(held, last);
      holding = true;
    });
    store_held();
  } else {
    tiles.for_each_tile([&](const auto& tile) {
      consumer.multiply_tile(accumulators, k_blocks, [] {});
      consumer.template wait<0>(accumulators);
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
        finish(warp_tile(tile, i), i);
        output.store(words, warp_tile(tile, i));
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
  static_assert(sizeof(Storage<Config>) == Config::smem_bytes, "wgmma.py and wgmma.cuh agree");
  static_assert(OperandA<Config>::bytes == Config::a_bytes &&
                OperandB<Config>::bytes == Config::b_bytes);
  Storage<Config>& storage = *reinterpret_cast<Storage<Config>*>(smem);
  const ClusterPlace<Config> place;
  Pipeline<Config> pipeline(shared_address(storage.full), shared_address(storage.empty));
  const TileLoop<Config> tiles(place, parameters);

  if (threadIdx.x == 0) {
    if (shared_address(smem) % 1024 != 0) __trap();  // swizzled tiles need this alignment
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (Config::tma_epilogue) prefetch_tensor_map(*map_out);
    pipeline.init();
  }
  place.sync();

  if (threadIdx.x < 128) {
    release_registers<Config::producer_registers>();
    if (threadIdx.x == 0) produce(storage, pipeline, place, tiles, map_a, map_b, parameters);
    __syncwarp();
  } else {
    acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    consume(storage, pipeline, tiles, map_out, parameters);
  }
  if constexpr (place.size > 1) place.sync();  // peers may still send here (rule 16)
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
