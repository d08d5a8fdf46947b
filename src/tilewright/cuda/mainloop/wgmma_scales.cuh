// Scales of blocks on their way from GMEM to consumers of a warp-specialized kernel: a ring beside
// that of the tiles, filled by two warps (sm_90). docs/memory-rules.md has the rules by number.
//
// A slot has the scales of one k-block: those of the tile's rows, then those of its columns. They
// are copied by fours where these are neighbors in GMEM and aligned, and by ones from wherever
// their strides say. Few instructions do it, for a consumer's warp waits while another has its
// issue slot.
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

// Scales of an operand of a tile, `stride` from each other and `step` from k-block to k-block.
struct ScaleSource {
  const float* first;
  int64_t stride, step;

  // Whether each fourth one is aligned for a copy of four.
  __device__ __forceinline__ bool by_fours() const {
    return stride == 1 && (reinterpret_cast<uint64_t>(first) | step * 4) % 16 == 0;
  }
};

// Scales that are copied at once: `count` of them, from number `index` of the rows or columns on.
template <int width>
struct ScaleRun {
  int index, count;

  // Those from `first` on, or the last ones of `extent` if none is left.
  __device__ __forceinline__ ScaleRun(int first, int extent)
      : index(minimum(first, (extent - 1) / width * width)),
        count(minimum(extent - index, width)) {}
};

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

  static __device__ __forceinline__ bool by_fours(const GemmParameters&, const ScaleSource&) {
    return true;  // as if they were, for there are two at most
  }

  // Which of a k-block's is number `i` of the tile that begins at `column` of the sums.
  template <int>
  static __device__ __forceinline__ ScaleRun<1> run_of(const GemmParameters& parameters, int column,
                                                       int i) {
    const int extent = (parameters.n - 1) / columns + 1;
    if constexpr (stacked) return {(column / 2 + i * (parameters.n / 2)) / columns, extent};
    return {column / columns + i, extent};
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

  static __device__ __forceinline__ bool by_fours(const GemmParameters& parameters,
                                                  const ScaleSource& source) {
    return source.by_fours() && (halves == 1 || parameters.n / halves % 4 == 0);
  }

  template <int width>
  static __device__ __forceinline__ ScaleRun<width> run_of(const GemmParameters& parameters,
                                                           int column, int i) {
    constexpr int of_half = count / halves;
    const int half = parameters.n / halves;
    ScaleRun<width> run(column / halves + i % of_half, half);
    run.index += i / of_half * half;
    return run;
  }

  __device__ __forceinline__ void begin(int column) {}

  __device__ __forceinline__ void read_block(uint32_t slot, int block) {
    load_shared(scales[block], slot + (block * 8 + threadIdx.x % 4 * 2) * 4);
  }

  __device__ __forceinline__ void read(uint32_t slot) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) read_block(slot, block);
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
  static_assert(of_slot * 4 + 16 == Config::scale_bytes, "wgmma/config.py and this");
  alignas(16) float scales[Config::scale_stages][of_slot];
  uint64_t scales_full[Config::scale_stages], scales_empty[Config::scale_stages];
};

// The place of a role in the ring. Its addresses are those of SMEM from the start, for otherwise
// each k-block converts them anew.
template <class Config>
class ScaleRing {
  static constexpr int stages = Config::scale_stages, slot_bytes = ScaleSlots<Config>::of_slot * 4;
  static_assert(slot_bytes % 8 == 0, "barriers follow the slots");
  uint32_t first;  // slot
  RingPosition<stages> position;

 public:
  explicit __device__ __forceinline__ ScaleRing(const ScaleSlots<Config>& slots)
      : first(shared_address(slots.scales)) {
    asm volatile("" : "+r"(first));
  }

  __device__ __forceinline__ uint32_t slot() const { return first + position.slot * slot_bytes; }
  __device__ __forceinline__ uint32_t full() const {
    return first + stages * slot_bytes + position.slot * 8;
  }
  __device__ __forceinline__ uint32_t empty() const { return full() + stages * 8; }
  __device__ __forceinline__ void wait_full() const { mbarrier_wait(full(), position.parity); }
  __device__ __forceinline__ void wait_empty() const {
    mbarrier_wait(empty(), position.parity ^ 1);
  }
  __device__ __forceinline__ void advance() { position.advance(); }
  __device__ __forceinline__ void skip(int k_blocks) { position.skip(k_blocks); }
};

// The copies of `count` scales of each k-block that one of `threads` threads makes, `width` at
// once.
template <int count, int width, int threads>
class ScaleCopies {
  static constexpr int copies = (count - 1) / (threads * width) + 1;
  const float* from[copies];  // of the next k-block
  int bytes[copies];
  int64_t step;

 public:
  // run_of(i) says which scales of the source are number `i` of the tile and those after it.
  template <class RunOf>
  __device__ __forceinline__ ScaleCopies(const ScaleSource& source, int thread, RunOf run_of)
      : step(source.step) {
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const ScaleRun<width> run = run_of((thread + i * threads) * width);
      from[i] = source.first + run.index * source.stride;
      bytes[i] = run.count * 4;
    }
  }

  // To SMEM address `slot`.
  __device__ __forceinline__ void copy(uint32_t slot, int thread) {
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const int number = (thread + i * threads) * width;
      if ((i + 1) * threads * width <= count || number < count) {
        cp_async<width * 4>(slot + number * 4, from[i], width == 1 ? 4 : bytes[i]);
      }
      from[i] += step;
    }
  }
};

// The warps that fill the ring, and its barriers.
template <class Config>
class ScaleProducer {
  using Columns = ColumnScales<Config>;
  ScaleSlots<Config>& slots;

  // Fills the ring for one tile, `width` scales of rows at once, and of columns if each has one.
  template <int width>
  static __device__ __forceinline__ void fill(ScaleRing<Config>& ring, const ScaleSource& of_a,
                                              const ScaleSource& of_b, const auto& tile,
                                              const GemmParameters& parameters, int k_blocks,
                                              int thread) {
    ScaleCopies<Config::tile_m, width, threads> rows(
        of_a, thread, [&](int i) { return ScaleRun<width>(tile.row + i, parameters.m); });
    ScaleCopies<Columns::count, Columns::count <= 2 ? 1 : width, threads> columns(
        of_b, thread,
        [&](int i) { return Columns::template run_of<width>(parameters, tile.column, i); });
#pragma unroll 1
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
      ring.wait_empty();
      rows.copy(ring.slot(), thread);
      columns.copy(ring.slot() + Config::tile_m * 4, thread);
      cp_async_arrive(ring.full());
      ring.advance();
    }
  }

 public:
  static constexpr int warps = 2, threads = warps * 32;

  explicit __device__ __forceinline__ ScaleProducer(ScaleSlots<Config>& slots) : slots(slots) {}

  // Called by one thread, before the CTA meets (rule 5). Each warp of a reader tells when it has
  // read a slot.
  __device__ __forceinline__ void init(int readers) const {
    for (int slot = 0; slot < Config::scale_stages; ++slot) {
      mbarrier_init(shared_address(&slots.scales_full[slot]), threads);
      mbarrier_init(shared_address(&slots.scales_empty[slot]), 4 * readers);
    }
    fence_mbarrier_init();
  }

  // Fills the ring for all tiles; by its threads, of which this is number `thread`.
  __device__ __forceinline__ void produce(const TileLoop<Config>& tiles,
                                          const GemmParameters& parameters, int thread) const {
    const MatrixParameters* scales = matrices<typename Config::Expression>(parameters, 0);
    ScaleRing<Config> ring(slots);
    wait_for_earlier_grids();
    tiles.for_each_tile([&](uint32_t index) {
      const auto tile = tiles.locate(index);
      auto source_of = [&](const MatrixParameters& matrix, int64_t stride, int64_t along_k) {
        return ScaleSource{static_cast<const float*>(matrix.pointer) +
                               batch_offset(parameters, matrix, tile.batch) +
                               tiles.k_of(0) / 128 * along_k,
                           stride, Config::split_k * along_k};
      };
      const auto of_a = source_of(scales[0], scales[0].row_stride, scales[0].column_stride);
      const auto of_b = source_of(scales[1], scales[1].column_stride, scales[1].row_stride);
      if (of_a.by_fours() && Columns::by_fours(parameters, of_b)) {
        fill<4>(ring, of_a, of_b, tile, parameters, tiles.k_blocks, thread);
      } else {
        fill<1>(ring, of_a, of_b, tile, parameters, tiles.k_blocks, thread);
      }
    });
  }
};

}  // namespace tilewright
