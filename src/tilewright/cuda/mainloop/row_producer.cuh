// The producers of a kernel whose operands TMA cannot address: a warpgroup that copies rows of A, B
// or both to the ring and shifts them to their places (mainloop/row_source.cuh), while one thread
// brings the other operand by TMA (sm_90a).
//
//   copies   0 1 2 3 4 5 ...        `in_flight` k-blocks are under way,
//   shifts         0 1 2 ...        and the ring's other slots hold what is multiplied
#pragma once
#include "mainloop/pipeline.cuh"
#include "mainloop/row_source.cuh"
#include "mainloop/wgmma_producer.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/elect.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/l2_policy.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// Config names: a_by_rows, b_by_rows: whether an operand is read by rows; tma_bytes: what TMA
// brings for a slot, of the other operand; in_flight; producer_warps.
template <class Config>
class RowProducer {
  using A = OperandA<Config>;
  using B = OperandB<Config>;
  using RowsA = RowSource<A, typename Config::Input, Config::producer_warps>;
  using RowsB = RowSource<B, typename Config::Input, Config::producer_warps>;
  static_assert(Config::row_ends == (Config::a_by_rows ? RowsA::tile_rows : 0) +
                                        (Config::b_by_rows ? RowsB::tile_rows : 0));

  const Pipeline<Config>& pipeline;
  const TileLoop<Config>& tiles;
  const GemmParameters& parameters;
  const TensorMap* map;  // of the operand that TMA brings; null without one
  uint32_t slots, row_ends;
  RowsA a;
  RowsB b;

  // A k-block of a tile, and its slot.
  struct Step {
    uint32_t index;
    int k_block = 0;
    typename RowsA::Place a;
    typename RowsB::Place b;
    int batch;
    RingPosition<Config::stages> position;
  };

  __device__ __forceinline__ void enter_tile(Step& step) const {
    const auto tile = tiles.locate(step.index);
    step.a = a.place(tile.row, tile.batch);
    step.b = b.place(tile.column, tile.batch);
    step.batch = tile.batch;
  }

  __device__ __forceinline__ bool exists(const Step& step) const {
    return step.index < tiles.all();
  }

  __device__ __forceinline__ void advance(Step& step) const {
    step.position.advance();
    if (++step.k_block == tiles.k_blocks) {
      step.k_block = 0;
      step.index = tiles.after(step.index);
      if (exists(step)) enter_tile(step);
    }
  }

  __device__ __forceinline__ void load(const Step& step) const {
    const int k = tiles.k_of(step.k_block);
    const uint32_t slot = slots + step.position.slot * Config::stage_bytes, ends = ends_of(step);
    if constexpr (Config::a_by_rows) a.load(slot, ends, step.a, k);
    if constexpr (Config::b_by_rows) {
      b.load(slot + Config::a_bytes, ends + ends_before_b, step.b, k);
    }
    if constexpr (Config::tma_bytes > 0) {
      if (threadIdx.x / 32 % Config::producer_warps == 0 && elected()) {
        const uint32_t barrier = pipeline.expect(step.position, Config::tma_bytes);
        const uint64_t policy = evict_first();
        if constexpr (Config::a_by_rows) {
          const Source<B, 1, IsStacked<Config>> source{*map, tiles.reads_b_once(), policy, 0,
                                                       0,    parameters.n / 2};
          source.template load<1>(slot + Config::a_bytes, step.b.mn, step.k_block, k,
                                  batch_of(parameters.b, step.batch), barrier);
        } else {
          const Source<A, 1> source{*map, tiles.reads_a_once(), policy, 0, 0};
          source.template load<1>(slot, step.a.mn, step.k_block, k,
                                  batch_of(parameters.a, step.batch), barrier);
        }
      }
    }
  }

  __device__ __forceinline__ void shift(const Step& step) const {
    const int k = tiles.k_of(step.k_block);
    const uint32_t slot = slots + step.position.slot * Config::stage_bytes, ends = ends_of(step);
    if constexpr (Config::a_by_rows) a.shift(slot, ends, step.a, k);
    if constexpr (Config::b_by_rows) {
      b.shift(slot + Config::a_bytes, ends + ends_before_b, step.b, k);
    }
  }

  static constexpr uint32_t ends_before_b = Config::a_by_rows ? RowsA::tile_rows * 16 : 0;

  __device__ __forceinline__ uint32_t ends_of(const Step& step) const {
    return row_ends + step.position.slot * Config::row_ends * 16;
  }

  __device__ __forceinline__ int batch_of(const MatrixParameters& matrix, int batch) const {
    return batch > 0 && is_broadcast(parameters, matrix) ? 0 : batch;
  }

 public:
  __device__ __forceinline__ RowProducer(Storage<Config>& storage, const Pipeline<Config>& ring,
                                         const TileLoop<Config>& loop,
                                         const TensorMap* map_of_other, const GemmParameters& p)
      : pipeline(ring),
        tiles(loop),
        parameters(p),
        map(map_of_other),
        slots(shared_address(storage.slots)),
        row_ends(shared_address(storage.row_ends)),
        a(p, p.a, p.a.row_stride, p.a.column_stride, p.m),
        b(p, p.b, p.b.column_stride, p.b.row_stride, p.n) {}

  // All threads of the producers' warps execute it.
  __device__ __forceinline__ void run() const {
    Step loading{tiles.first()}, shifting{tiles.first()};
    if (exists(loading)) enter_tile(loading);
    shifting = loading;
    wait_for_earlier_grids();  // here, since all before it can be done meanwhile
#pragma unroll 1
    for (int started = 0; exists(shifting); ++started) {
      if (exists(loading)) {
        pipeline.wait_empty(loading.position);
        load(loading);
        advance(loading);
      }
      cp_async_commit();
      if (started < Config::in_flight) continue;
      cp_async_wait<Config::in_flight>();
      __syncwarp();  // a row's chunks were copied by several lanes
      shift(shifting);
      fence_proxy_async_shared();  // every writer, before the barrier (rule 1)
      __syncwarp();
      if (elected()) pipeline.fill(shifting.position);
      advance(shifting);
    }
    if (threadIdx.x % 128 == 0) launch_next_grid();
  }
};

}  // namespace tilewright
