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
  __device__ __forceinline__ Promotion(Storage<Config>&, int part) {}

  static __device__ __forceinline__ void skip(int k_blocks) {}
  static __device__ __forceinline__ void read() {}

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
  float rows[row_blocks][2];
  ColumnScales<Config> columns;

 public:
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
    const uint32_t slot = ring.slot();
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_shared(rows[i][half], slot + (row + i * 64 + half * 8) * 4);
      }
    }
    columns.read(slot + Config::tile_m * 4);
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(ring.empty());
    ring.advance();
  }

  template <bool first>
  __device__ __forceinline__ float add(float sum, float product, int row_block, int value) const {
    const float scale = __fmul_rn(rows[row_block][value / 2 % 2], columns.of(value));
    return first ? __fmul_rn(product, scale) : __fmaf_rn(product, scale, sum);
  }
};

}  // namespace tilewright
