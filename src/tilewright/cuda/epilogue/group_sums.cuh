// The sums of columns, first half: over groups of 16 rows of finished values, into a workspace with
// a row for each group of each batch. kernels/column_sums.cuh adds these.
//
// All kernels add the 16 values of a column in one order, so the bits of a sum depend on the values
// alone: rows r and r + 8 first, then these of r and r + 4, of r and r + 2, and of r and r + 1.
// Rows beyond the matrix count as 0.
#pragma once
#include "epilogue/expression.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Whether a Config's expression also sums columns.
template <class Config>
concept HasColumnSums = requires { requires Config::sums_columns; };

constexpr int rows_of_group = 16;

// The sums of one group, which begins at `row`.
template <class Config>
class GroupSums {
  float* sums = nullptr;  // null beyond the matrix
  int columns;

 public:
  __device__ __forceinline__ GroupSums(const GemmParameters& parameters, int batch, int row)
      : columns(parameters.n / sums_per_column<Config>) {
    constexpr int count = matrices_of<typename Config::Expression>;
    const auto& matrices = static_cast<const ExpressionParameters<count>&>(parameters).operands;
    if (row < parameters.m) {
      const int groups = ceil_div(parameters.m, rows_of_group);
      sums = static_cast<float*>(matrices[count - 1].pointer) +
             (static_cast<int64_t>(batch) * groups + row / rows_of_group) * columns;
    }
  }

  // Stores the sum of a column, if it exists.
  __device__ __forceinline__ void put(int column, float sum) const {
    if (sums != nullptr && column < columns) sums[column] = sum;
  }
};

// The same from a warp that has the group's rows as mma and wgmma leave them: a lane has rows
// lane / 4 and 8 more, and two columns of each block of eight: lane % 4 * 2 and the next if these
// are `neighbors`, and else lane % 4 and the fourth from it.
template <class Config, int blocks, bool neighbors>
class WarpGroupSums {
  GroupSums<Config> group;
  int column;  // the first of the warp
  float pending[8] = {};

  // Adds over the lanes that have the same columns, each of which keeps one column of four blocks:
  // in the end the warp has 32 columns.
  __device__ __forceinline__ void put(int first_block) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int bit = 16, kept = 4; kept > 0; bit /= 2, kept /= 2) {
      const bool upper = lane & bit;
#pragma unroll
      for (int i = 0; i < kept; ++i) {
        const float mine = upper ? pending[i + kept] : pending[i];
        const float others = upper ? pending[i] : pending[i + kept];
        pending[i] = __fadd_rn(mine, __shfl_xor_sync(0xFFFFFFFF, others, bit));
      }
    }
    const int block = first_block + lane / 8, second = lane / 4 % 2;
    const int inside = neighbors ? lane % 4 * 2 + second : lane % 4 + second * 4;
    if (block < blocks) group.put(column + block * 8 + inside, pending[0]);
  }

 public:
  __device__ __forceinline__ WarpGroupSums(const GemmParameters& parameters, int batch, int row,
                                           int first_column)
      : group(parameters, batch, row), column(first_column) {}

  // The values of a block in the lane's two rows. Blocks come in order, and all lanes bring theirs.
  __device__ __forceinline__ void add(int block, float2 upper, float2 lower) {
    pending[block % 4 * 2] = __fadd_rn(upper.x, lower.x);
    pending[block % 4 * 2 + 1] = __fadd_rn(upper.y, lower.y);
    if (block % 4 == 3 || block == blocks - 1) {
      put(block / 4 * 4);
#pragma unroll
      for (float& each : pending) each = 0.0f;
    }
  }
};

}  // namespace tilewright
