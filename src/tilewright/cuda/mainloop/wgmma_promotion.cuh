// How the products of a k-block join a consumer's sums where tensor cores do not add them: sums of
// fp8 lose bits there, and scales of blocks change after every 128 of k (sm_90a).
//
// A lane holds, of every block of 8 columns, two neighbors in each of two rows: value v is in row
// v / 2 % 2 * 8 of the block of rows, and column v / 4 * 8 + v % 2, counted from the lane's first
// (epilogue/warp_finish.cuh).
#pragma once
#include "epilogue/expression.cuh"
#include "mainloop/pipeline.cuh"
#include "mainloop/wgmma_scales.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Products are added as they are.
template <class Config>
struct Promotion {
  static constexpr bool reads_ahead = false;

  __device__ __forceinline__ Promotion(Storage<Config>&, int part) {}

  static __device__ __forceinline__ void skip(int k_blocks) {}
  static __device__ __forceinline__ void read() {}
  static __device__ __forceinline__ void begin_reading_ahead() {}
  static __device__ __forceinline__ void read_ahead(int block) {}
  static __device__ __forceinline__ void end_reading_ahead() {}

  // A sum and value `value` of row block `row_block` of the products, the first ones or others.
  template <bool first>
  static __device__ __forceinline__ float add(float sum, float product, int row_block, int value) {
    return first ? product : __fadd_rn(sum, product);
  }
};

// Products are scaled by block, by scales from the ring of them.
template <HasBlockScales Config>
class Promotion<Config> {
  static constexpr int row_blocks = Config::row_blocks;
  static_assert(Config::tile_k == 128, "a k-block has one scale");

  ScaleRing<Config> ring;
  int row;  // the lane's first in the tile
  float rows[row_blocks][2], rows_ahead[row_blocks][2];
  ColumnScales<Config> columns;

  __device__ __forceinline__ void read_rows(float (&scales)[row_blocks][2]) const {
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_shared(scales[i][half], ring.slot() + (row + i * 64 + half * 8) * 4);
      }
    }
  }

  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(ring.empty());
    ring.advance();
  }

 public:
  // Where each column has a scale, reading them takes longer than the first wgmmas.
  static constexpr bool reads_ahead = ColumnScales<Config>::count > 2 && Config::wait_depth == 0;

  __device__ __forceinline__ Promotion(Storage<Config>& storage, int part)
      : ring(storage),
        row(part * row_blocks * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) {}

  // Begins the tile that begins at `column` of the sums.
  __device__ __forceinline__ void begin(int column) { columns.begin(column); }

  // Leaves the k-blocks of a tile to another consumer.
  __device__ __forceinline__ void skip(int k_blocks) { ring.skip(k_blocks); }

  // Waits for the scales of the next k-block, and reads them. Then the slot is free: few fit, and
  // one must be filled again before its turn comes.
  __device__ __forceinline__ void read() {
    ring.wait_full();
    read_rows(rows);
    columns.read(ring.slot() + Config::tile_m * 4);
    release();
  }

  // Does the same before the next k-block's turn, while products of this one are added: a block of
  // 8 columns behind the last use of its registers.
  __device__ __forceinline__ void begin_reading_ahead() {
    if constexpr (reads_ahead) {
      ring.wait_full();
      read_rows(rows_ahead);
    }
  }

  __device__ __forceinline__ void read_ahead(int block) {
    if constexpr (reads_ahead) columns.read_block(ring.slot() + Config::tile_m * 4, block);
  }

  __device__ __forceinline__ void end_reading_ahead() {
    if constexpr (reads_ahead) {
      release();
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
        rows[i][0] = rows_ahead[i][0];
        rows[i][1] = rows_ahead[i][1];
      }
    }
  }

  template <bool first>
  __device__ __forceinline__ float add(float sum, float product, int row_block, int value) const {
    const float scale = __fmul_rn(rows[row_block][value / 2 % 2], columns.of(value));
    return first ? __fmul_rn(product, scale) : __fmaf_rn(product, scale, sum);
  }
};

}  // namespace tilewright
