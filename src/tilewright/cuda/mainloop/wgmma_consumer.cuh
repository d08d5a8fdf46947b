// A consumer of a warp-specialized kernel: a warpgroup that multiplies the ring's tiles with wgmma
// (sm_90a). docs/memory-rules.md has the rules by number.
#pragma once
#include "mainloop/pipeline.cuh"
#include "mainloop/wgmma_promotion.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/wgmma.cuh"
#include "types.cuh"

namespace tilewright {

// One warpgroup: row_blocks blocks of 64 rows, below each other.
template <class Config>
class Consumer {
  static constexpr int row_blocks = Config::row_blocks;
  static constexpr int values = Config::tile_n / 2;  // per lane and row block
  using Sum = typename Config::Sum;
  using Accumulators = Sum[row_blocks][values];
  using A = OperandA<Config>;
  using B = OperandB<Config>;

  const Pipeline<Config>& pipeline;
  RingPosition<Config::stages> position;
  uint32_t a, b;  // low words of the descriptors of this warpgroup's operands in slot 0

  // Those of the position's slot, for `promote` found by `look_ahead`.
  static constexpr bool looks_ahead = Config::promotes && Config::wait_depth == 0;
  uint32_t a_ahead, b_ahead;

  // Waits for the position's slot, and computes its descriptors here: what is volatile stays.
  __device__ __forceinline__ void look_ahead() {
    pipeline.wait_full(position);
    a_ahead = a + position.slot * (Config::stage_bytes / 16);
    b_ahead = b + position.slot * (Config::stage_bytes / 16);
    asm volatile("" : "+r"(a_ahead), "+r"(b_ahead));
  }

  // One row block times the slot's tile of B.
  __device__ __forceinline__ void multiply(Sum (&accumulators)[values], int row_block,
                                           bool accumulate) const {
    const uint32_t slot = position.slot * (Config::stage_bytes / 16);
    const uint32_t a_slot = looks_ahead ? a_ahead : a + slot;
    const uint32_t b_slot = looks_ahead ? b_ahead : b + slot;
#pragma unroll
    for (int span = 0; span < Config::k_spans; ++span) {
      const uint32_t a_span = a_slot + span * (A::bytes / 16) + row_block * A::block_step;
      const uint32_t b_span = b_slot + span * (B::bytes / 16);
#pragma unroll
      for (int step = 0; step < 4; ++step) {  // of 32 bytes along k
        Wgmma::mma(accumulators, A::with_high_word(a_span + step * A::k_step),
                   B::with_high_word(b_span + step * B::k_step),
                   accumulate || span > 0 || step > 0);
      }
    }
    wgmma_commit();
  }

  // One k-block, whose products are added to the sums by CUDA cores; behind `look_ahead`. Unless it
  // is the `last`, its slot is released, as below, and this looks ahead to the next one behind the
  // last wgmmas, for while products are added nothing is under way. `during_first` runs during the
  // first wgmmas. The other consumer multiplies while this one adds.
  template <bool first, class During>
  __device__ __forceinline__ void promote(Accumulators& sums, Sum (&products)[values], bool last,
                                          During during_first) {
    const int slot = position.slot;
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
      const bool leaves = i == row_blocks - 1 && !last;
      wgmma_fence();
      multiply(products, i, false);
      if (i == 0) {
        during_first();
        if constexpr (first || !Promotion<Config>::reads_ahead) promotion.read();
      }
      if (leaves) {
        position.advance();
        look_ahead();
        promotion.begin_reading_ahead();
      }
      wgmma_wait<0>();
      wgmma_results(products);
      if (leaves) pipeline.release(slot);
#pragma unroll
      for (int v = 0; v < values; ++v) {
        sums[i][v] = promotion.template add<first>(sums[i][v], products[v], i, v);
        if (leaves && v % 4 == 3) promotion.read_ahead(v / 4);
      }
      if (leaves) promotion.end_reading_ahead();
      wgmma_results(sums[i]);  // the products are read before the next fence, not behind it
    }
  }

  // The products of a k-block, which are under way in one of two buffers. Those of the next one are
  // under way while they are added (wait_depth 1), unless they are the `last`.
  template <int buffer, bool last>
  __device__ __forceinline__ void promote_behind(Sum (&sums)[values], Sum (&products)[2][values]) {
    const int slot = position.slot;
    if constexpr (!last) {
      position.advance();
      pipeline.wait_full(position);
      wgmma_fence();
      multiply(products[1 - buffer], 0, false);
    }
    wgmma_wait<!last>();
    wgmma_results(products[buffer]);
    if constexpr (!last) pipeline.release(slot);
    promotion.read();
#pragma unroll
    for (int v = 0; v < values; ++v) {
      sums[v] = promotion.template add<false>(sums[v], products[buffer][v], 0, v);
    }
    wgmma_results(sums);
  }

 public:
  Promotion<Config> promotion;

  // The one that takes part `part` of a tile's rows.
  __device__ __forceinline__ Consumer(Storage<Config>& storage, const Pipeline<Config>& ring,
                                      int part)
      : pipeline(ring), promotion(storage, part) {
    const uint32_t slot = shared_address(storage.slots);
    a = A::low_word(slot) + part * row_blocks * A::block_step;
    b = B::low_word(slot) + Config::a_bytes / 16;
  }

  // Leaves the k-blocks of a tile to another consumer.
  __device__ __forceinline__ void skip_tile(int k_blocks) {
    position.skip(k_blocks);
    promotion.skip(k_blocks);
  }

  // The product of one tile. At the end the wgmmas of the last k-block are still under way, one
  // group per row block, unless they are promoted. `during_first` runs during the first, which
  // overwrite row block 0; it begins the tile's promotion, if that has scales.
  template <class During>
  __device__ __forceinline__ void multiply_tile(Accumulators& accumulators, int k_blocks,
                                                During during_first) {
    if constexpr (Config::promotes && Config::wait_depth == 1) {
      static_assert(row_blocks == 1);
      Sum products[2][values];
      pipeline.wait_full(position);
      wgmma_fence();
      multiply(products[0], 0, false);
      during_first();
#pragma unroll
      for (Sum& sum : accumulators[0]) sum = 0;
      int left = k_blocks;  // ptxas follows what is under way where no branch decides it
#pragma unroll 1
      for (; left > 2; left -= 2) {
        promote_behind<0, false>(accumulators[0], products);
        promote_behind<1, false>(accumulators[0], products);
      }
      if (left == 2) {
        promote_behind<0, false>(accumulators[0], products);
        promote_behind<1, true>(accumulators[0], products);
      } else {
        promote_behind<0, true>(accumulators[0], products);
      }
      return;
    }
    if constexpr (Config::promotes) {
      Sum products[values];
      look_ahead();
      promote<true>(accumulators, products, k_blocks == 1, during_first);
      // One that reads ahead does so without a test of each address, since the last is apart.
      constexpr bool last_is_apart = Promotion<Config>::reads_ahead;
#pragma unroll 1
      for (int k_block = last_is_apart ? 2 : 1; k_block < k_blocks; ++k_block) {
        promote<false>(accumulators, products, !last_is_apart && k_block + 1 == k_blocks, [] {});
      }
      if (last_is_apart && k_blocks > 1) promote<false>(accumulators, products, true, [] {});
      return;
    }
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

  // Waits until only the last `pending` row blocks are under way. If that is 0, the tile's last
  // slot is free for the next tile. CTAs that split k have none, and tell only those that they
  // share loads with.
  template <int pending>
  __device__ __forceinline__ void wait(Accumulators& accumulators) {
    wgmma_wait<pending>();
#pragma unroll
    for (int i = 0; i < row_blocks - pending; ++i) wgmma_results(accumulators[i]);
    if constexpr (pending == 0 && (Config::split_k == 1 || ClusterPlace<Config>::shares)) {
      pipeline.release(position.slot);
      if constexpr (Config::split_k == 1) {
        position.advance();
      }
    }
  }
};

}  // namespace tilewright
