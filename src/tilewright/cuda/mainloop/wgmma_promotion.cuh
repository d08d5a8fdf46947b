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

  // Goes to the next k-block of the tile.
  static __device__ __forceinline__ void advance() {}

  // A sum and value `value` of row block `row_block` of the products, the first ones or others.
  template <bool first>
  static __device__ __forceinline__ float add(float sum, float product, int row_block, int value) {
    return first ? product : __fadd_rn(sum, product);
  }
};

// Scales of B that are for 128 columns each. The columns of a tile have two at most.
template <class Config, int columns = Config::Expression::Blocks::columns>
class ColumnScales {
  static_assert(columns == 128);
  static constexpr bool stacked = IsStacked<Config>;
  static constexpr int count = stacked || columns % Config::tile_n != 0 ? 2 : 1;
  const float* places[count];
  float values[count];
  int second;  // the block of 8 columns of the tile with which the second one begins

 public:
  // k_block: the first that is read.
  __device__ __forceinline__ void begin(const GemmParameters& parameters,
                                        const MatrixParameters& scales, int column, int batch,
                                        int k_block) {
    const float* place = static_cast<const float*>(scales.pointer) +
                         batch_offset(parameters, scales, batch) + k_block * scales.row_stride;
    const int half = parameters.n / 2, last = (parameters.n - 1) / columns;
    if constexpr (stacked) column /= 2;
    places[0] = place + minimum(column / columns, last) * scales.column_stride;
    if constexpr (count == 2) {
      const int next = stacked ? (half + column) / columns : column / columns + 1;
      places[1] = place + minimum(next, last) * scales.column_stride;
    }
    second = stacked                         ? Config::tile_n / 16
             : Config::tile_n % columns == 0 ? columns / 8
                                             : (columns - column % columns) / 8;
  }

  // Reads those of a k-block, and goes on by `step` elements.
  __device__ __forceinline__ void read(const MatrixParameters&, int64_t step) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = *places[i];
      places[i] += step;
    }
  }

  // That of a value.
  __device__ __forceinline__ float of(int value) const {
    return count == 1 || value / 4 < second ? values[0] : values[count - 1];
  }
};

// Scales of B that are for one column each.
template <class Config>
class ColumnScales<Config, 1> {
  static constexpr int blocks = Config::tile_n / 8;
  static constexpr int of_half = IsStacked<Config> ? blocks / 2 : blocks;
  const float* places[blocks / of_half];  // of the lane's first column in each half of B
  int inside;                             // columns from there to the end
  float2 values[blocks];

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
    constexpr bool pairs = Config::Expression::Blocks::pairs;
    const int64_t stride = pairs ? 1 : scales.column_stride;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      const int column = block % of_half * 8;
      values[block] =
          load_numbers<pairs>(places[block / of_half] + column * stride, stride, inside - column);
    }
#pragma unroll
    for (const float*& place : places) place += step;
  }

  __device__ __forceinline__ float of(int value) const {
    return value % 2 == 0 ? values[value / 4].x : values[value / 4].y;
  }
};

// Products are scaled by block. The scales of a k-block are read from GMEM to registers before its
// slot is waited for, and arrive while it is multiplied.
template <HasBlockScales Config>
class Promotion<Config> {
  static constexpr int row_blocks = Config::row_blocks;
  static_assert(Config::tile_k == 128, "a k-block has one scale");

  const GemmParameters& parameters;
  const float* places[row_blocks][2];  // of the scales of A, for the lane's rows
  float rows[row_blocks][2];
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
        rows[i][half] = *places[i][half];
        places[i][half] += Config::split_k * a.column_stride;
      }
    }
    columns.read(b, Config::split_k * b.row_stride);
  }

 public:
  __device__ __forceinline__ explicit Promotion(const GemmParameters& p) : parameters(p) {}

  // Begins a tile: `row` is the first of this warp, `column` the tile's, among the sums.
  __device__ __forceinline__ void begin(int row, int column, int batch, int k_block) {
    const MatrixParameters& a = scales_of(0);
    const float* place = static_cast<const float*>(a.pointer) + batch_offset(parameters, a, batch) +
                         k_block * a.column_stride;
    row += threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = minimum(row + i * 64 + half * 8, parameters.m - 1);
        places[i][half] = place + at * a.row_stride;
      }
    }
    columns.begin(parameters, scales_of(1), column, batch, k_block);
    read();
  }

  __device__ __forceinline__ void advance() { read(); }

  template <bool first>
  __device__ __forceinline__ float add(float sum, float product, int row_block, int value) const {
    const float scale = __fmul_rn(rows[row_block][value / 2 % 2], columns.of(value));
    return first ? __fmul_rn(product, scale) : __fmaf_rn(product, scale, sum);
  }
};

}  // namespace tilewright
