// Persistent, warp-specialised GEMM on Hopper's asynchronous tensor cores (sm_90a), bf16 or fp16
// with fp32 accumulation.
//
// One producer thread brings tiles of A and B into a ring of SMEM slots by TMA; consumer warpgroups
// multiply them with wgmma, each its own rows of the CTA's tile, and write out. The CTAs of a
// cluster compute neighbouring tiles in step and share loads: every tile of A is loaded in
// cluster_n slices, every tile of B in cluster_m slices, each slice by one CTA and multicast to
// those that need it. CTAs stay and take tile after tile; loads run ahead into the next tile.
//
//   producer   load load load load ... load load load load ...
//   consumer        mul  mul  mul  ... mul  mul  mul  mul  ...
//                                      store previous tile        (overlap)
//
// docs/memory-rules.md has the rules by number.
#pragma once
#include "kernels/parameters.cuh"
#include "kernels/pipeline.cuh"
#include "kernels/wgmma_epilogue.cuh"
#include "layout/descriptor.cuh"
#include "layout/raster.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "types.cuh"

namespace tilewright {

template <int bytes>
struct Staging {
  alignas(1024) uint8_t staging[bytes];  // (warp, store_buffers, 16, store_columns)
};

template <>
struct Staging<0> {};

// All of a CTA's SMEM.
template <class Config>
struct Storage : Staging<Config::staging_bytes> {
  // Of each stage the tile of A, then that of B.
  alignas(1024) uint8_t slots[Config::stages][Config::stage_bytes];
  uint64_t full[Config::stages];
  uint64_t empty[Config::stages];
};

template <class Config>
using OperandA = WgmmaOperand<Config::a_mn_major, Config::tile_m, Config::tile_k>;
template <class Config>
using OperandB = WgmmaOperand<Config::b_mn_major, Config::tile_n, Config::tile_k>;

// The tiles that this CTA computes, one after another, in step with the others of its cluster.
template <class Config>
class Schedule {
  using Place = ClusterPlace<Config>;
  Place place;
  int clusters_m, clusters_n;  // clusters' tiles along m and n
  int batches;

 public:
  struct Tile {
    int row, column, batch;  // of its first element in out
  };

  __device__ __forceinline__ Schedule(const Place& cluster_place, const GemmParameters& parameters)
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

// ---------------------------------------------------------------- producer

// Loads slice `slice` of `slices` of one operand's tile and sends it to `ctas`. K-major tiles are
// cut along mn; MN-major ones along k, panel by panel.
template <class Operand, int slices>
__device__ __forceinline__ void load_slice(uint32_t tile, const TensorMap& map, int mn, int k,
                                           int batch, int slice, uint16_t ctas, uint32_t barrier) {
  auto load = [&](uint32_t destination, int x, int y) {
    if constexpr (slices > 1) {
      tma_load_multicast(destination, map, x, y, batch, barrier, ctas);
    } else {
      tma_load(destination, map, x, y, batch, barrier);
    }
  };
  const int offset = slice * ((Operand::mn_major ? Operand::tile_k : Operand::tile_mn) / slices);
  const uint32_t destination = tile + offset * Operand::row_bytes;
  if constexpr (Operand::mn_major) {
#pragma unroll
    for (int panel = 0; panel < Operand::panels; ++panel) {
      load(destination + panel * Operand::panel_bytes, mn + panel * Operand::panel_rows,
           k + offset);
    }
  } else {
    load(destination, k, mn + offset);
  }
}

// Executed by one thread.
template <class Config>
__device__ __forceinline__ void produce(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const ClusterPlace<Config>& place,
                                        const Schedule<Config>& schedule, const TensorMap& map_a,
                                        const TensorMap& map_b, const GemmParameters& parameters) {
  using Place = ClusterPlace<Config>;
  uint16_t sharing_a = 0, sharing_b = 0;  // CTAs, by rank
  for (int n = 0; n < Config::cluster_n; ++n) sharing_a |= 1 << Place::rank_of(place.m, n);
  for (int m = 0; m < Config::cluster_m; ++m) sharing_b |= 1 << Place::rank_of(m, place.n);
  const bool a_broadcast = is_broadcast(parameters, parameters.a);
  const bool b_broadcast = is_broadcast(parameters, parameters.b);
  const uint32_t slots = shared_address(storage.slots);

  RingPosition<Config::stages> position;
  schedule.for_each_tile([&](const auto& tile) {
    const int batch_a = a_broadcast ? 0 : tile.batch, batch_b = b_broadcast ? 0 : tile.batch;
#pragma unroll 1
    for (int k = 0; k < parameters.k; k += Config::tile_k) {
      const uint32_t barrier = pipeline.begin_fill(position);
      const uint32_t slot = slots + position.slot * Config::stage_bytes;
      load_slice<OperandA<Config>, Config::cluster_n>(slot, map_a, tile.row, k, batch_a, place.n,
                                                      sharing_a, barrier);
      load_slice<OperandB<Config>, Config::cluster_m>(slot + Config::a_bytes, map_b, tile.column, k,
                                                      batch_b, place.m, sharing_b, barrier);
      position.advance();
    }
  });
}

// ---------------------------------------------------------------- consumers

// One warpgroup: row_blocks blocks of 64 rows, below each other.
template <class Config>
class Consumer {
  static constexpr int row_blocks = Config::row_blocks;
  static constexpr int values = Config::tile_n / 2;  // of a lane and row block
  using Accumulators = float[row_blocks][values];
  using A = OperandA<Config>;
  using B = OperandB<Config>;

  const Pipeline<Config>& pipeline;
  RingPosition<Config::stages> position;
  uint64_t a, b;  // descriptors of this warpgroup's operands in slot 0

  // One row block times the slot's tile of B.
  __device__ __forceinline__ void multiply(float (&accumulators)[values], int row_block,
                                           bool accumulate) const {
    const uint32_t slot = position.slot * (Config::stage_bytes / 16);
#pragma unroll
    for (int k16 = 0; k16 < Config::tile_k / 16; ++k16) {
      Wgmma::mma(accumulators, a + slot + row_block * A::block_step + k16 * A::k16_step,
                 b + slot + k16 * B::k16_step, accumulate || k16 > 0);
    }
    wgmma_commit();
  }

 public:
  __device__ __forceinline__ Consumer(const Storage<Config>& storage, const Pipeline<Config>& ring,
                                      int index)
      : pipeline(ring) {
    const uint32_t slot = shared_address(storage.slots);
    a = A::descriptor(slot) + index * row_blocks * A::block_step;
    b = B::descriptor(slot + Config::a_bytes);
  }

  // The product of one tile, short of waiting for the wgmmas of the last k-block: one group per row
  // block is under way. `during_first` runs behind the first wgmmas, which overwrite row block 0.
  template <class During>
  __device__ __forceinline__ void multiply_tile(Accumulators& accumulators, int k_blocks,
                                                During during_first) {
    pipeline.wait_full(position);
    wgmma_fence();
    multiply(accumulators[0], 0, false);
    during_first();
#pragma unroll
    for (int i = 1; i < row_blocks; ++i) {
      wgmma_fence();
      multiply(accumulators[i], i, false);
    }
#pragma unroll 1
    for (int k_block = 1; k_block < k_blocks; ++k_block) {
      const int previous = position.slot;
      if constexpr (Config::wait_depth == 0) {
        wgmma_wait<0>();
        pipeline.release(previous);
      }
      position.advance();
      pipeline.wait_full(position);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) multiply(accumulators[i], i, true);
      if constexpr (Config::wait_depth == 1) {
        wgmma_wait<row_blocks>();
        pipeline.release(previous);
      }
    }
  }

  // Waits until only the `pending` last row blocks are under way; with 0, the tile's last slot is
  // free.
  template <int pending>
  __device__ __forceinline__ void wait(Accumulators& accumulators) {
    wgmma_wait<pending>();
#pragma unroll
    for (int i = 0; i < row_blocks - pending; ++i) wgmma_results(accumulators[i]);
    if constexpr (pending == 0) {
      pipeline.release(position.slot);
      position.advance();
    }
  }
};

template <class Config>
__device__ __forceinline__ void consume(Storage<Config>& storage, const Pipeline<Config>& pipeline,
                                        const Schedule<Config>& schedule, const TensorMap* map_out,
                                        const GemmParameters& parameters) {
  constexpr int row_blocks = Config::row_blocks, last = row_blocks - 1;
  const int index = threadIdx.x / 128 - 1;  // of this consumer; warpgroup 0 is the producer's
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
    // The last row block is held back, packed, and stored behind the next tile's first wgmmas; an
    // earlier one is stored behind the last wgmmas of the tile.
    WarpTile held;
    bool holding = false;
    auto store_held = [&] {
      if (holding) output.store(words, held);
    };
    schedule.for_each_tile([&](const auto& tile) {
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
    schedule.for_each_tile([&](const auto& tile) {
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

// ---------------------------------------------------------------- kernel

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
  const Schedule<Config> schedule(place, parameters);

  if (threadIdx.x == 0) {
    if (shared_address(smem) % 1024 != 0) __trap();  // swizzled tiles need it
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if constexpr (Config::tma_epilogue) prefetch_tensor_map(*map_out);
    pipeline.init();
  }
  place.sync();

  if (threadIdx.x < 128) {
    release_registers<Config::producer_registers>();
    if (threadIdx.x == 0) produce(storage, pipeline, place, schedule, map_a, map_b, parameters);
    __syncwarp();
  } else {
    acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    consume(storage, pipeline, schedule, map_out, parameters);
  }
  if constexpr (place.size > 1) place.sync();  // peers may still send here (rule 16)
}

// With tma_epilogue.
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
