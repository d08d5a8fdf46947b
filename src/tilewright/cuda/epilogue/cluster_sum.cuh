// The sum of a tile over the CTAs of a cluster that each multiplied a part of k (sm_90a).
//
// Each CTA ends with tile_n / split_k columns of the tile. It sends the other columns of its
// accumulators to the CTAs that want them, straight from registers to their SMEM, and adds what it
// receives to its own, in the order of the senders: the result does not depend on who is first.
//
//   columns     0 .. half   half .. tile_n
//   CTA 0        keeps       sends to 1
//   CTA 1        sends to 0  keeps
#pragma once
#include "mainloop/wgmma_storage.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/st_async.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
class ClusterSum {
  using Value = typename Config::Sum;
  static constexpr int parts = Config::split_k, row_blocks = Config::row_blocks;
  static constexpr int values = Config::out_columns / 2;  // of a lane and row block, kept
  static constexpr int vectors = values / 4;              // 16 bytes each
  // Per sender, (warp, row_block, vector, lane) of 16 bytes.
  static constexpr int warp_bytes = row_blocks * vectors * 32 * 16;
  static constexpr int sender_bytes = Config::consumers * 4 * warp_bytes;
  static_assert(Config::sum_bytes == (parts - 1) * sender_bytes);

  struct Four {  // 16 bytes
    Value values[4];
  };

  static __device__ __forceinline__ Four four_of(const Value* values) {
    return {values[0], values[1], values[2], values[3]};
  }

  uint32_t sums, received;  // SMEM addresses
  ClusterPlace<Config> place;

  // Where this thread's values of `sender` are; senders are counted without the receiver.
  __device__ __forceinline__ uint32_t sums_of(int sender) const {
    const int warp = threadIdx.x / 32;
    return sums + sender * sender_bytes + warp * warp_bytes + threadIdx.x % 32 * 16;
  }

 public:
  __device__ __forceinline__ ClusterSum(Storage<Config>& storage,
                                        const ClusterPlace<Config>& own_place)
      : sums(shared_address(storage.sums)),
        received(shared_address(&storage.received)),
        place(own_place) {}

  // By one thread, before the cluster meets (rule 5).
  __device__ __forceinline__ void init() const {
    mbarrier_init(received, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(received, Config::sum_bytes);
  }

  // From this CTA's accumulators of a whole tile to the sums of its columns. By all consumers,
  // once.
  __device__ __forceinline__ void exchange(Value (&kept)[row_blocks][values],
                                           const Value (&all)[row_blocks][parts * values]) const {
    const int part = place.part;
#pragma unroll
    for (int to = 0; to < parts; ++to) {
      if (to == part) {
#pragma unroll
        for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
          for (int v = 0; v < values; ++v) kept[i][v] = all[i][to * values + v];
        }
      } else {
        const int rank = place.rank_of_part(to);
        const uint32_t there = cluster_address(sums_of(part < to ? part : part - 1), rank);
        const uint32_t barrier = cluster_address(received, rank);
#pragma unroll
        for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
          for (int v = 0; v < vectors; ++v) {
            store_async(there + (i * vectors + v) * 32 * 16,
                        __builtin_bit_cast(float4, four_of(&all[i][to * values + v * 4])), barrier);
          }
        }
      }
    }
    mbarrier_wait_cluster(received, 0);
#pragma unroll
    for (int sender = 0; sender < parts - 1; ++sender) {
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          float4 words;
          load_shared(words, sums_of(sender) + (i * vectors + v) * 32 * 16);
          const Four four = __builtin_bit_cast(Four, words);
#pragma unroll
          for (int j = 0; j < 4; ++j) kept[i][v * 4 + j] += four.values[j];
        }
      }
    }
  }
};

}  // namespace tilewright
