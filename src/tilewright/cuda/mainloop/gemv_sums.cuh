// The sums of a warp of `gemv`: it multiplies what it has loaded, and puts the sums of its lanes
// into SMEM. Tensor cores multiply elements of 2 bytes, and CUDA cores those of fp32, which are not
// rounded.
#pragma once
#include "mainloop/gemv_operands.cuh"
#include "ptx/mma.cuh"
#include "types.cuh"

namespace tilewright {

// As mma.sync leaves them: in fragments of 16 columns or parts of these, and eight rows or parts.
template <class Config, class Input = typename Config::Input>
struct WarpSums {
  using X = Activations<Config>;
  using W = Weights<Config>;
  static constexpr int blocks = W::count / 2;
  float d[blocks][X::count][4] = {};

  __device__ __forceinline__ void add(const typename W::Words& words, const typename X::Words& x) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        uint32_t a[4];
        W::fragment(a, words, block, half);
#pragma unroll
        for (int i = 0; i < X::count; ++i) {
          mma_m16n8k16<Input>(d[block][i], a, x[i][half * 2], x[i][half * 2 + 1]);
        }
      }
    }
  }

  // The sum over the parts of k of a weight's eight rows and two of an activation's columns: the
  // products of equal parts are spread over the lanes of both.
  static __device__ __forceinline__ float over_parts(float first, float second) {
    constexpr int parts = Config::k_parts;
    const int part = threadIdx.x % 32 / 4 % parts, column = threadIdx.x % 4 * 2;
    float sum = column % parts == part ? first : (column + 1) % parts == part ? second : 0.0f;
#pragma unroll
    for (int lanes = 1; lanes < parts * 4; lanes *= 2) {
      if (lanes < parts / 2 || lanes >= 4) sum += __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
    }
    return sum;
  }

  // Puts the sums where `row` and `column` of the warp's tile in SMEM are.
  template <int pitch>
  __device__ __forceinline__ void put(float* tile) const {
    constexpr int parts = Config::k_parts, rows = 8 / parts;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
      for (int i = 0; i < X::count; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float first = d[block][i][half * 2], second = d[block][i][half * 2 + 1];
          float* const column = tile + W::column_of(block * 2 + half);
          if constexpr (parts == 1) {
            column[(i * rows + t * 2) * pitch] = first;
            column[(i * rows + t * 2 + 1) * pitch] = second;
          } else {
            const float sum = over_parts(first, second);
            if (g % parts == 0 && t * 2 % parts == 0) {
              column[(i * rows + t * 2 / parts) * pitch] = sum;
            }
          }
        }
      }
    }
  }
};

// On CUDA cores: a lane has parts along k of `count` columns, and adds their products with all
// rows. Lanes whose parts are of the same columns are neighbors.
template <class Config>
struct WarpSums<Config, float> {
  using X = Activations<Config>;
  using W = Weights<Config>;
  float d[W::count][X::count] = {};

  __device__ __forceinline__ void add(const typename W::Words& words, const typename X::Words& x) {
#pragma unroll
    for (int row = 0; row < X::count; ++row) {
#pragma unroll
      for (int i = 0; i < wide<float>; ++i) {
#pragma unroll
        for (int column = 0; column < W::count; ++column) {
          d[column][row] = fmaf(__uint_as_float(W::element(words, column, i)),
                                __uint_as_float(x[row][i]), d[column][row]);
        }
      }
    }
  }

  // Puts the sums where `row` and `column` of the warp's tile in SMEM are.
  template <int pitch>
  __device__ __forceinline__ void put(float* tile) const {
    constexpr int parts = 4 * Config::k_parts;
#pragma unroll
    for (int column = 0; column < W::count; ++column) {
#pragma unroll
      for (int row = 0; row < X::count; ++row) {
        float sum = d[column][row];
#pragma unroll
        for (int lanes = 1; lanes < parts; lanes *= 2) {
          sum += __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
        }
        if (threadIdx.x % parts == 0) tile[row * pitch + W::column_of(column)] = sum;
      }
    }
  }
};

}  // namespace tilewright
