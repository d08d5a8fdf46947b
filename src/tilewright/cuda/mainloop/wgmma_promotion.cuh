// How the products of a k-block join a consumer's sums where tensor cores do not add them: sums of
// fp8 lose bits there, and scales of blocks change after every 128 of k (sm_90a).
//
// A lane holds, of every block of 8 columns, two neighbors in each of two rows: value v is in row
// v / 2 % 2 * 8 of the block of rows, and column v / 4 * 8 + v % 2, counted from the lane's first
// (epilogue/warp_finish.cuh).
#pragma once
#include "epilogue/expression.cuh"
#include "epilogue/pairs.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Products are added as they are.
template <class Config>
struct Promotion {
  __device__ __forceinline__ explicit Promotion(const GemmParameters&) {}

  // Called ahead of each k-block but the first; so many are `left`.
  static __device__ __forceinline__ void turn(int left) {}

  // A sum and value `value` of row block `row_block` of the products, the first ones or others.
  template <bool first>
  static __device__ __forceinline__ float add(float sum, float product, int row_block, int value) {
    return first ? product : __fadd_rn(sum, product);
  }
};

// Scales of B that are for 128 columns each, of which the columns of a tile have two at most; those
// of this k-block and of the next.
template <class Config, int columns = Config::Expression::Blocks::columns>
class ColumnScales {
  static_assert(columns == 128);
  static constexpr bool stacked = IsStacked<Config>;
  static constexpr int count = stacked || columns % Config::tile_n != 0 ? 2 : 1;
  // Blocks of 8 columns between two places where the second scale of some tile may begin.
  static constexpr int step =
      stacked ? Config::tile_n / 16 : (Config::tile_n & -Config::tile_n) / 8;
  const float* places[count];  // of what is read next
  float now[count], next[count];
  int second;  // the block of 8 columns of the tile with which the second one begins

 public:
  // `column` is the tile's among the sums, `k_block` the first that is read.
  __device__ __forceinline__ void begin(const GemmParameters& parameters,
                                        const MatrixParameters& scales, int column, int batch,
                                        int k_block) {
    const float* place = static_cast<const float*>(scales.pointer) +
                         batch_offset(parameters, scales, batch) + k_block * scales.row_stride;
    const int half = parameters.n / 2, last = (parameters.n - 1) / columns;
    if constexpr (stacked) column /= 2;
    places[0] = place + minimum(column / columns, last) * scales.column_stride;
    if constexpr (count == 2) {
      const int following = stacked ? (half + column) / columns : column / columns + 1;
      places[1] = place + minimum(following, last) * scales.column_stride;
    }
    second = stacked ? Config::tile_n / 16 : (columns - column % columns) / 8;
  }

  // Reads those of a k-block, and goes on by `step` elements.
  __device__ __forceinline__ void read(const MatrixParameters&, int64_t step) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      next[i] = *places[i];
      places[i] += step;
    }
  }

  __device__ __forceinline__ void turn() {
#pragma unroll
    for (int i = 0; i < count; ++i) now[i] = next[i];
  }

  // That of a value.
  __device__ __forceinline__ float of(int value) const {
    return count == 1 || value / 4 / step * step < second ? now[0] : now[count - 1];
  }
};

// Scales of B that are for one column each.
template <class Config>
class ColumnScales<Config, 1> {
  static constexpr int blocks = Config::tile_n / 8;
  static constexpr int of_half = IsStacked<Config> ? blocks / 2 : blocks;
  static constexpr bool pairs = Config::Expression::Blocks::pairs;
  const float* places[blocks / of_half];  // of the lane's first column in each half of B
  int inside;                             // columns from there to the end
  float2 now[blocks], next[blocks];

  template <bool whole>
  __device__ __forceinline__ void read_pairs(int64_t stride) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      const int column = block % of_half * 8;
      next[block] = load_numbers<pairs>(places[block / of_half] + column * stride, stride,
                                        whole ? 2 : inside - column);
    }
  }

 public:
  __device__ __forceinline__ void begin(const GemmParameters& parameters,
                                        const MatrixParameters& scales, int column, int batch,
                                        int k_block) {
    constexpr int halves = blocks / of_half;
    column = column / halves + threadIdx.x % 4 * 2;
    inside = parameters.n / halves - column;
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      places[half] = static_cast<const float*>(scales.pointer) +
                     batch_offset(parameters, scales, batch) + k_block * scales.row_stride +
                     (column + half * (parameters.n / 2)) * scales.column_stride;
    }
  }

  __device__ __forceinline__ void read(const MatrixParameters& scales, int64_t step) {
    const int64_t stride = pairs ? 1 : scales.column_stride;
    if (inside >= of_half * 8) {
      read_pairs<true>(stride);
    } else {
      read_pairs<false>(stride);
    }
#pragma unroll
    for (const float*& place : places) place += step;
  }

  __device__ __forceinline__ void turn() {
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      now[block] = next[block];
    }
  }

  __device__ __forceinline__ float of(int value) const {
    return value % 2 == 0 ? now[value / 4].x : now[value / 4].y;
  }
};

// Products are scaled by block. Scales are read from GMEM to registers a k-block ahead, and change
// place ahead of the next wait: among wgmmas, these would wait for what is on its way.
template <HasBlockScales Config>
class Promotion<Config> {
  static constexpr int row_blocks = Config::row_blocks;
  static_assert(Config::tile_k == 128, "a k-block has one scale");

  const GemmParameters& parameters;
  const float* place;  // of the scales of A that are read next, in row 0
  int row;             // the lane's first
  float now[row_blocks][2], next[row_blocks][2];
  ColumnScales<Config> columns;

  __device__ __forceinline__ const MatrixParameters& scales_of(int operand) const {
    return matrices<typename Config::Expression>(parameters, 0)[operand];
  }

  __device__ __forceinline__ void read() {
    const MatrixParameters &a = scales_of(0), &b = scales_of(1);
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        next[i][half] = place[minimum(row + i * 64 + half * 8, parameters.m - 1) * a.row_stride];
      }
    }
    place += Config::split_k * a.column_stride;
    columns.read(b, Config::split_k * b.row_stride);
  }

 public:
  __device__ __forceinline__ explicit Promotion(const GemmParameters& p) : parameters(p) {}

  // Begins a tile of so many k-blocks: `first_row` is this warp's, `column` the tile's, among the
  // sums.
  __device__ __forceinline__ void begin(int first_row, int column, int batch, int k_block,
                                        int k_blocks) {
    const MatrixParameters& a = scales_of(0);
    place = static_cast<const float*>(a.pointer) + batch_offset(parameters, a, batch) +
            k_block * a.column_stride;
    row = first_row + threadIdx.x % 32 / 4;
    columns.begin(parameters, scales_of(1), column, batch, k_block);
    read();
    turn(k_blocks);
  }

  // Goes to the scales of the next of the k-blocks that are left, and reads those of the one
  // behind.
  __device__ __forceinline__ void turn(int left) {
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) now[i][half] = next[i][half];
    }
    columns.turn();
    if (left > 1) read();
  }

  template <bool first>
  __device__ __forceinline__ float add(float sum, float product, int row_block, int value) const {
    const float scale = __fmul_rn(now[row_block][value / 2 % 2], columns.of(value));
    return first ? __fmul_rn(product, scale) : __fmaf_rn(product, scale, sum);
  }
};

}  // namespace tilewright
