// Scales of blocks on their way from GMEM to consumers of a warp-specialized kernel: a ring beside
// that of the tiles, filled by two warps (sm_90). docs/memory-rules.md has the rules by number.
//
// A slot has the scales of one k-block: those of the tile's rows, then those of its columns. Each
// is copied by itself, from wherever its strides say, and nobody waits for one but its readers.
#pragma once
#include "epilogue/expression.cuh"
#include "mainloop/pipeline.cuh"
#include "parameters.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

// Scales of B that are for 128 columns each, of which the columns of a tile have two at most.
template <class Config, int columns = Config::Expression::Blocks::columns>
class ColumnScales {
  static_assert(columns == 128);
  static constexpr bool stacked = IsStacked<Config>;
  // Blocks of 8 columns between two places where the second scale of some tile may begin.
  static constexpr int step =
      stacked ? Config::tile_n / 16 : (Config::tile_n & -Config::tile_n) / 8;
  int second = Config::tile_n / 16;  // the block of 8 columns with which it begins
  float scales[2];

 public:
  static constexpr int count = stacked || columns % Config::tile_n != 0 ? 2 : 1;  // of a tile
  static constexpr int slots = 4;                                                 // that it takes

  // Which of a k-block's is number `i` of the tile that begins at `column` of the sums.
  static __device__ __forceinline__ int index_of(const GemmParameters& parameters, int column,
                                                 int i) {
    const int last = (parameters.n - 1) / columns;
    if constexpr (stacked) return minimum((column / 2 + i * (parameters.n / 2)) / columns, last);
    return minimum(column / columns + i, last);
  }

  __device__ __forceinline__ void begin(int column) {
    if constexpr (!stacked) second = (columns - column % columns) / 8;
  }

  __device__ __forceinline__ void read(uint32_t slot) {
#pragma unroll
    for (int i = 0; i < count; ++i) load_shared(scales[i], slot + i * 4);
  }

  // That of a value.
  __device__ __forceinline__ float of(int value) const {
    return count == 1 || value / 4 / step * step < second ? scales[0] : scales[count - 1];
  }
};

// Scales of B that are for one column each.
template <class Config>
class ColumnScales<Config, 1> {
  static constexpr int blocks = Config::tile_n / 8, halves = IsStacked<Config> ? 2 : 1;
  float2 scales[blocks];

 public:
  static constexpr int count = Config::tile_n, slots = count;

  static __device__ __forceinline__ int index_of(const GemmParameters& parameters, int column,
                                                 int i) {
    constexpr int of_half = count / halves;
    const int half = parameters.n / halves;
    return i / of_half * half + minimum(column / halves + i % of_half, half - 1);
  }

  __device__ __forceinline__ void begin(int column) {}

  __device__ __forceinline__ void read(uint32_t slot) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      load_shared(scales[block], slot + (block * 8 + threadIdx.x % 4 * 2) * 4);
    }
  }

  __device__ __forceinline__ float of(int value) const {
    return value % 2 == 0 ? scales[value / 4].x : scales[value / 4].y;
  }
};

// What it has in SMEM, if there are such scales. They stand before the columns' in a slot.
template <class Config>
struct ScaleSlots {};

template <HasBlockScales Config>
struct ScaleSlots<Config> {
  static constexpr int of_slot = Config::tile_m + ColumnScales<Config>::slots;
  static_assert(of_slot * 4 + 16 == Config::scale_bytes, "wgmma_config.py and wgmma_scales.cuh");
  alignas(16) float scales[Config::scale_stages][of_slot];
  uint64_t scales_full[Config::scale_stages], scales_empty[Config::scale_stages];
};

// The two warps that fill the ring, and its barriers.
template <class Config>
class ScaleProducer {
  static constexpr int rows = Config::tile_m / 64;
  static constexpr int count = ColumnScales<Config>::count, columns = (count - 1) / 64 + 1;
  ScaleSlots<Config>& ring;

 public:
  static constexpr int threads = 64;

  explicit __device__ __forceinline__ ScaleProducer(ScaleSlots<Config>& slots) : ring(slots) {}

  // Called by one thread, before the CTA meets (rule 5). Each warp of a reader tells when it has
  // read a slot.
  __device__ __forceinline__ void init(int readers) const {
    for (int slot = 0; slot < Config::scale_stages; ++slot) {
      mbarrier_init(shared_address(&ring.scales_full[slot]), threads);
      mbarrier_init(shared_address(&ring.scales_empty[slot]), 4 * readers);
    }
    fence_mbarrier_init();
  }

  // Fills the ring for all tiles; by its threads, of which this is number `thread`.
  __device__ __forceinline__ void produce(const TileLoop<Config>& tiles,
                                          const GemmParameters& parameters, int thread) const {
    const MatrixParameters* scales = matrices<typename Config::Expression>(parameters, 0);
    const MatrixParameters &of_a = scales[0], &of_b = scales[1];
    const uint32_t slots = shared_address(ring.scales) + thread * 4;
    RingPosition<Config::scale_stages> position;
    wait_for_earlier_grids();
    tiles.for_each_tile([&](uint32_t index) {
      const auto tile = tiles.locate(index);
      const int64_t first = tiles.k_of(0) / 128;
      int row = tile.row + thread;
      const float* from_a = static_cast<const float*>(of_a.pointer) +
                            batch_offset(parameters, of_a, tile.batch) + first * of_a.column_stride;
      const float* from_b = static_cast<const float*>(of_b.pointer) +
                            batch_offset(parameters, of_b, tile.batch) + first * of_b.row_stride;
      int column[columns];
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        column[i] = ColumnScales<Config>::index_of(parameters, tile.column, thread + i * threads);
      }
#pragma unroll 1
      for (int k_block = 0; k_block < tiles.k_blocks; ++k_block) {
        mbarrier_wait(shared_address(&ring.scales_empty[position.slot]), position.parity ^ 1);
        const uint32_t slot = slots + position.slot * (ScaleSlots<Config>::of_slot * 4);
        // Few registers are left here: addresses are computed anew for each k-block.
        asm volatile("" : "+r"(row));
#pragma unroll
        for (int& each : column) asm volatile("" : "+r"(each));
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          const int at = minimum(row + i * threads, parameters.m - 1);
          cp_async<4>(slot + i * threads * 4, from_a + at * of_a.row_stride, 4);
        }
#pragma unroll
        for (int i = 0; i < columns; ++i) {
          if ((i + 1) * threads <= count || thread + i * threads < count) {
            cp_async<4>(slot + (Config::tile_m + i * threads) * 4,
                        from_b + column[i] * of_b.column_stride, 4);
          }
        }
        from_a += Config::split_k * of_a.column_stride;
        from_b += Config::split_k * of_b.row_stride;
        cp_async_arrive(shared_address(&ring.scales_full[position.slot]));
        position.advance();
      }
    });
  }
};

}  // namespace tilewright
