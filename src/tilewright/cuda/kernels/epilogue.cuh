// out = activation(alpha * accumulator + beta * c + bias): the one epilogue of every kernel.
//
// Config names: Output, Addend (c), Bias: element types; has_c, has_bias; activation (an Activation);
// store_elements: neighbours along a row that one store may write (2 where out is row-major and aligned).
#pragma once
#include "kernels/parameters.cuh"
#include "types.cuh"

namespace tilewright {

enum Activation { identity, relu, gelu, gelu_tanh, silu };

template <Activation activation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (activation == relu) return x < 0.0f ? 0.0f : x;  // NaN stays NaN
  if constexpr (activation == gelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
  if constexpr (activation == gelu_tanh) {
    // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
    const float u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + __expf(-2.0f * u));
  }
  if constexpr (activation == silu) return __fdividef(x, 1.0f + __expf(-x));
  return x;
}

template <class Config>
struct Epilogue {
  using Output = typename Config::Output;

  const GemmParameters& parameters;
  Output* out;
  const typename Config::Addend* c;
  const typename Config::Bias* bias;

  __device__ Epilogue(const GemmParameters& p, int batch) : parameters(p) {
    out = static_cast<Output*>(p.out.pointer) + batch_offset(p, p.out, batch);
    if constexpr (Config::has_c) {
      c = static_cast<const typename Config::Addend*>(p.c.pointer) + batch_offset(p, p.c, batch);
    }
    if constexpr (Config::has_bias) {
      bias = static_cast<const typename Config::Bias*>(p.bias.pointer) +
             batch_offset(p, p.bias, batch);
    }
  }

  // The finished value of element (row, column), which must lie inside out.
  __device__ __forceinline__ float finish(float accumulator, int row, int column) const {
    float value = parameters.alpha * accumulator;
    if constexpr (Config::has_c) {
      value += parameters.beta * to_float(c[row * parameters.c.row_stride +
                                            column * parameters.c.column_stride]);
    }
    if constexpr (Config::has_bias) {
      value += to_float(
          bias[row * parameters.bias.row_stride + column * parameters.bias.column_stride]);
    }
    return activate<static_cast<Activation>(Config::activation)>(value);
  }

  __device__ __forceinline__ void store(float accumulator, int row, int column) const {
    if (row >= parameters.m || column >= parameters.n) return;
    out[row * parameters.out.row_stride + column * parameters.out.column_stride] =
        from_float<Output>(finish(accumulator, row, column));
  }

  // Columns `column` (even) and `column` + 1: what one lane of a tensor-core fragment holds side by side.
  __device__ __forceinline__ void store_pair(float first, float second, int row, int column) const {
    if constexpr (Config::store_elements >= 2) {
      if (row < parameters.m && column + 1 < parameters.n) {
        const float x = finish(first, row, column), y = finish(second, row, column + 1);
        Output* const address = out + row * parameters.out.row_stride + column;
        if constexpr (sizeof(Output) == 2) {
          *reinterpret_cast<uint32_t*>(address) = pack<Output>(x, y);
        } else {
          *reinterpret_cast<float2*>(address) = make_float2(x, y);
        }
        return;
      }
    }
    store(first, row, column);
    store(second, row, column + 1);
  }
};

}  // namespace tilewright
