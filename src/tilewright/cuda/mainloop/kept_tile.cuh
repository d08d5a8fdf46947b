// A tile of a matrix in the registers of a CTA, in chunks of 16 bytes as they lie in memory: rows
// are what neighbors in memory belong to.
#pragma once
#include "epilogue/code_scale.cuh"
#include "mainloop/chunk_loads.cuh"
#include "mainloop/magnitudes.cuh"
#include "parameters.cuh"
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

// Config names: Input; tile_m, tile_n, threads; load_bytes: of a load; unit_stride: whether
// neighbors are neighbors in memory; batched; backward: whether the last CTA has the first tile.
// Parameters: prefetch: of how many CTAs later a CTA brings the tile to L2; 0 for none.
template <class Config>
class KeptTile {
 protected:
  using Input = typename Config::Input;
  using Magnitude = Magnitudes<Input>;
  static constexpr int threads = Config::threads;
  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n;
  static constexpr int in_chunk = 16 / sizeof(Input);
  static constexpr int across = tile_n / in_chunk;          // chunks of a row
  static constexpr int chunks = tile_m * across / threads;  // of a thread
  // Rows between those of a thread's chunks; 0: they share one row.
  static constexpr int rows_apart = threads / across;
  static_assert(chunks * threads == tile_m * across, "threads share the tile evenly");
  static_assert(threads % across == 0 || (tile_m == 1 && across % threads == 0), "and so do rows");
  static_assert(across % 32 == 0 || 32 % across == 0,
                "a warp has whole rows, or a row whole warps");

  const QuantizeParameters& parameters;
  uint32_t words[chunks][4];
  int batch, tile_row, tile_column;  // which tile this is

  static __device__ __forceinline__ int row_of(int i) {
    return i * rows_apart + threadIdx.x / across;
  }
  static __device__ __forceinline__ int column_of(int i) {
    return ((rows_apart ? 0 : i * threads) + threadIdx.x % across) * in_chunk;
  }

  __device__ __forceinline__ int first_row() const { return tile_row * tile_m; }
  __device__ __forceinline__ int first_column() const { return tile_column * tile_n; }

  // What was computed of x is computed anew from here on, so that registers keep x alone.
  __device__ __forceinline__ void forget_values() {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(words[i][j]));
    }
  }

  __device__ __forceinline__ float value(int i, int element) const {
    constexpr int in_word = Magnitude::in_word;
    return Magnitude::value(words[i][element / in_word], element % in_word);
  }

  __device__ __forceinline__ int64_t offset(const MatrixParameters& matrix, int row,
                                            int column) const {
    const int64_t ahead = Config::batched ? batch_offset(parameters, matrix, batch) : 0;
    return ahead + row * matrix.row_stride + column * matrix.column_stride;
  }

  // The tile of a CTA, row by row: one division, for which the first loads wait, and two for
  // batches.
  __device__ __forceinline__ KeptTile(const QuantizeParameters& of, uint32_t block)
      : parameters(of) {
    // An empty x has a tile, which is empty: it makes the scales of nothing.
    const uint32_t tiles_m = maximum(ceil_div(of.m, tile_m), 1);
    const uint32_t tiles_n = maximum(ceil_div(of.n, tile_n), 1);
    const uint32_t at = Config::backward ? gridDim.x - 1 - block : block;
    batch = Config::batched ? at / (tiles_m * tiles_n) : 0;
    const uint32_t tile = at - batch * (tiles_m * tiles_n);
    tile_row = tile / tiles_n;
    tile_column = tile - tile_row * tiles_n;
  }

  __device__ __forceinline__ const Input* first() const {
    return static_cast<const Input*>(parameters.a.pointer) +
           offset(parameters.a, first_row(), first_column());
  }

  __device__ __forceinline__ bool is_whole() const {
    return parameters.m - first_row() >= tile_m && parameters.n - first_column() >= tile_n;
  }

  // Brings a tile to L2 that an SM will have when it is through with those it has.
  __device__ __forceinline__ void prefetch_later() const {
    const uint32_t block = blockIdx.x + parameters.prefetch;
    if (parameters.prefetch == 0 || block >= gridDim.x) return;
    const KeptTile later(parameters, block);
    if (!later.is_whole()) return;
    constexpr int sectors = tile_n * sizeof(Input) / 32;  // of a row
    constexpr int all = tile_m * sectors;
    const Input* const x = later.first();
#pragma unroll
    for (int i = 0; i < ceil_div(all, threads); ++i) {
      const int at = threadIdx.x + i * threads;
      if (i == all / threads && at >= all) return;  // a part of the threads brings the rest
      prefetch_to_l2(x + at / sectors * parameters.a.row_stride + at % sectors * 2 * in_chunk);
    }
  }

  // The tile, with zeros beyond x.
  __device__ __forceinline__ void load() {
    using Chunk = ChunkLoads<Input, Config::load_bytes>;
    const Input* const x = first();
    const int rows = parameters.m - first_row(), columns = parameters.n - first_column();
    const int64_t row_stride = parameters.a.row_stride;
    const int64_t column_stride = Config::unit_stride ? 1 : parameters.a.column_stride;
    if (is_whole()) {
#pragma unroll
      for (int i = 0; i < chunks; ++i) {
        Chunk::load(words[i], x + row_of(i) * row_stride + column_of(i) * column_stride,
                    column_stride);
      }
      if constexpr (Config::load_bytes == 16) prefetch_later();
      return;
    }
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int row = row_of(i), column = column_of(i);
#pragma unroll
      for (int j = 0; j < 4; ++j) words[i][j] = 0;
      if (row >= rows || column >= columns) continue;
      const Input* const chunk = x + row * row_stride + column * column_stride;
      if (columns - column >= in_chunk) {
        Chunk::load(words[i], chunk, column_stride);
      } else {
        Chunk::load_part(words[i], chunk, column_stride, columns - column);
      }
    }
  }
};

}  // namespace tilewright
