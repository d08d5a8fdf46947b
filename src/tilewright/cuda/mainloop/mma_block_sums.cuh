// Sums whose products have scales of blocks, in kernels of mma.sync: those of each 128 of k are
// scaled as CUDA cores add them in fp32.
#pragma once
#include "epilogue/expression.cuh"
#include "mainloop/mma_fragments.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Without such scales, tensor cores add all products.
template <class Config>
struct BlockSums {
  __device__ __forceinline__ BlockSums(const GemmParameters&, int batch, int m, int n) {}
  static __device__ __forceinline__ void add(Accumulators<Config>&, int k_tile, int k_tiles) {}
  static __device__ __forceinline__ void finish(Accumulators<Config>&) {}
};

// The sums of a warp's block, which starts at (m, n).
template <HasBlockScales Config>
class BlockSums<Config> {
  static constexpr int blocks_m = Config::warp_m / 16, blocks_n = Config::warp_n / 8;
  static constexpr int columns = Config::Expression::Blocks::columns;
  static_assert(128 % Config::tile_k == 0, "a k-tile has one scale");

  const GemmParameters& parameters;
  const float *of_a, *of_b;  // scales of the batch
  int row, column;           // the lane's first
  float sums[blocks_m][blocks_n][4] = {};

  __device__ __forceinline__ const MatrixParameters& scales_of(int operand) const {
    return matrices<typename Config::Expression>(parameters, 0)[operand];
  }

  __device__ __forceinline__ const float* scales_of(int operand, int batch) const {
    const MatrixParameters& scales = scales_of(operand);
    return static_cast<const float*>(scales.pointer) + batch_offset(parameters, scales, batch);
  }

  // The column of B from which a column of sums is, or the last one.
  __device__ __forceinline__ int column_of_b(int at) const {
    if constexpr (IsStacked<Config>) at = at / 2 + at % 2 * (parameters.n / 2);
    return minimum(at, parameters.n - 1);
  }

 public:
  __device__ __forceinline__ BlockSums(const GemmParameters& p, int batch, int m, int n)
      : parameters(p),
        of_a(scales_of(0, batch)),
        of_b(scales_of(1, batch)),
        row(m + threadIdx.x % 32 / 4),
        column(n + threadIdx.x % 4 * 2) {}

  // Behind k-tile number `k_tile`: at the end of a block, its products join the sums.
  __device__ __forceinline__ void add(Accumulators<Config>& products, int k_tile, int k_tiles) {
    const int k = k_tile * Config::tile_k;
    if ((k + Config::tile_k) % 128 != 0 && k_tile + 1 < k_tiles) return;
    const MatrixParameters &a = scales_of(0), &b = scales_of(1);
    const float *block_a = of_a + k / 128 * a.column_stride,
                *block_b = of_b + k / 128 * b.row_stride;
    float of_columns[blocks_n][2];
#pragma unroll
    for (int j = 0; j < blocks_n; ++j) {
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        of_columns[j][v] = block_b[column_of_b(column + j * 8 + v) / columns * b.column_stride];
      }
    }
#pragma unroll
    for (int i = 0; i < blocks_m; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = minimum(row + i * 16 + half * 8, parameters.m - 1);
        const float of_row = block_a[at * a.row_stride];
#pragma unroll
        for (int j = 0; j < blocks_n; ++j) {
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            float& product = products.d[i][j][half * 2 + v];
            float& sum = sums[i][j][half * 2 + v];
            sum = __fmaf_rn(product, __fmul_rn(of_row, of_columns[j][v]), sum);
            product = 0.0f;
          }
        }
      }
    }
  }

  // The sums take the products' place.
  __device__ __forceinline__ void finish(Accumulators<Config>& products) const {
#pragma unroll
    for (int i = 0; i < blocks_m; ++i) {
#pragma unroll
      for (int j = 0; j < blocks_n; ++j) {
#pragma unroll
        for (int v = 0; v < 4; ++v) products.d[i][j][v] = sums[i][j][v];
      }
    }
  }
};

}  // namespace tilewright
