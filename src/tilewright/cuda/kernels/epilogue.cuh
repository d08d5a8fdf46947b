// out = activation(alpha * accumulator + beta * c + bias): the one epilogue of every kernel.
//
// Config names: Output, Addend (c), Bias: element types; has_c, has_bias; activation (an
// Activation); store_elements: neighbours along a row that one store may write (2 where out is
// row-major and aligned).
#pragma once
#include "kernels/parameters.cuh"
#include "ptx/approximate.cuh"
#include "types.cuh"

namespace tilewright {

enum Activation { identity, relu, gelu, gelu_tanh, silu };

template <Activation activation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (activation == relu) return x < 0.0f ? 0.0f : x;  // NaN stays NaN
  if constexpr (activation == gelu) {
    // x Phi(x), with erfc(|x| / sqrt(2)) by Abramowitz and Stegun 7.1.26 (absolute error below
    // 1.5e-7), its polynomial halved: about half of erff's code, which would stand here once for
    // every accumulator.
    const float t = reciprocal_approx(1.0f + 0.23164189f * fabsf(x));
    const float polynomial =
        ((((0.5307027145f * t - 0.7265760135f) * t + 0.7107068705f) * t - 0.142248368f) * t +
         0.127414796f) *
        t;
    const float half_erfc = polynomial * exp2_approx(-0.72134752f * (x * x));
    return x * (x < 0.0f ? half_erfc : 1.0f - half_erfc);
  }
  if constexpr (activation == gelu_tanh) {
    // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
    return x * reciprocal_approx(1.0f + exp2_approx(x * (-2.3022082f - 0.10294324f * (x * x))));
  }
  if constexpr (activation == silu) {
    return x * reciprocal_approx(1.0f + exp2_approx(-1.44269504f * x));
  }
  return x;
}

// One row of out with the same row of c and bias.
template <class Config>
struct EpilogueRow {
  using Output = typename Config::Output;

  const GemmParameters& parameters;
  Output* out;  // elements 0 of the row
  const typename Config::Addend* c;
  const typename Config::Bias* bias;

  // The value of an element from its accumulator and its elements of c and bias.
  __device__ __forceinline__ float combine(float accumulator, typename Config::Addend c_element,
                                           typename Config::Bias bias_element) const {
    float value = parameters.alpha * accumulator;
    if constexpr (Config::has_c) value += parameters.beta * to_float(c_element);
    if constexpr (Config::has_bias) value += to_float(bias_element);
    return activate<static_cast<Activation>(Config::activation)>(value);
  }

  // The finished value of a column inside the matrix.
  __device__ __forceinline__ float finish(float accumulator, int column) const {
    typename Config::Addend c_element{};
    typename Config::Bias bias_element{};
    if constexpr (Config::has_c) c_element = c[column * parameters.c.column_stride];
    if constexpr (Config::has_bias) bias_element = bias[column * parameters.bias.column_stride];
    return combine(accumulator, c_element, bias_element);
  }

  // A column inside the matrix.
  __device__ __forceinline__ void store(float accumulator, int column) const {
    out[column * parameters.out.column_stride] = from_float<Output>(finish(accumulator, column));
  }

  // Columns `column` (even) and `column` + 1: what one lane of a tensor-core fragment holds side by
  // side. Both are finished once, whatever is stored: this code is there for every accumulator.
  __device__ __forceinline__ void store_pair(float first, float second, int column) const {
    if (column >= parameters.n) return;
    const bool both = column + 1 < parameters.n;
    const float x = finish(first, column), y = finish(second, both ? column + 1 : column);
    if constexpr (Config::store_elements >= 2) {
      if (both) {
        *reinterpret_cast<typename PairWord<Output>::type*>(out + column) = word_of<Output>(x, y);
        return;
      }
    }
    out[column * parameters.out.column_stride] = from_float<Output>(x);
    if (both) out[(column + 1) * parameters.out.column_stride] = from_float<Output>(y);
  }
};

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

  // Row `row`; only inside out may its elements be touched.
  __device__ __forceinline__ EpilogueRow<Config> at_row(int row) const {
    EpilogueRow<Config> result{parameters, out + row * parameters.out.row_stride};
    if constexpr (Config::has_c) result.c = c + row * parameters.c.row_stride;
    if constexpr (Config::has_bias) result.bias = bias + row * parameters.bias.row_stride;
    return result;
  }
};

}  // namespace tilewright
