// out = activation(alpha * accumulator + beta * c + bias), or an expression of alpha * accumulator:
// the one epilogue of every kernel.
//
// Config names: Output, Addend (c), Bias: element types; has_c, has_bias; Activation: a functor of
// activation.cuh; store_elements: neighbors along a row that one store may write (2 if out is
// row-major and aligned); staged_rows, if rows of out are gathered in SMEM. With an expression
// (expression.cuh), there are no c, bias and Activation.
#pragma once
#include "epilogue/activation.cuh"
#include "epilogue/expression.cuh"
#include "epilogue/scaled.cuh"
#include "parameters.cuh"
#include "ptx/narrow.cuh"
#include "types.cuh"

namespace tilewright {

// Whether rows of out are gathered in SMEM (epilogue/out_rows.cuh).
template <class Config>
concept StagesRows = requires { requires Config::staged_rows > 0; };

// One row of out with the same row of c and bias.
template <class Config>
struct EpilogueRow {
  using Output = typename Config::Output;
  // Whether neighbors of a row can be written at once.
  static constexpr bool pairs = Config::store_elements >= 2 || StagesRows<Config>;

  const GemmParameters& parameters;
  Output* out;  // elements 0 of the row
  RowExpression<Config> expression;
  const typename Config::Addend* c;
  const typename Config::Bias* bias;

  // The value of an element from its accumulator and its elements of c and bias. Roundings are
  // written out: else the compiler might join a multiplication and an addition in one Config alone.
  template <class Bias>
  __device__ __forceinline__ float combine(float accumulator, typename Config::Addend c_element,
                                           Bias bias_element) const {
    float value = scaled(parameters.alpha, accumulator);
    if constexpr (Config::has_c) value = __fmaf_rn(parameters.beta, to_float(c_element), value);
    if constexpr (Config::has_bias) value = __fadd_rn(value, to_float(bias_element));
    return Config::Activation::apply(value);
  }

  // The finished value of a column inside the matrix.
  __device__ __forceinline__ float finish(float accumulator, int column) const {
    typename Config::Addend c_element{};
    typename Config::Bias bias_element{};
    if constexpr (Config::has_c) c_element = c[column * parameters.c.column_stride];
    if constexpr (Config::has_bias) bias_element = bias[column * parameters.bias.column_stride];
    return combine(accumulator, c_element, bias_element);
  }

  // From an element of the row to the next.
  __device__ __forceinline__ int64_t stride() const {
    return StagesRows<Config> ? 1 : parameters.out.column_stride;
  }

  // A column inside the matrix.
  __device__ __forceinline__ void store(float accumulator, int column) const {
    out[column * stride()] = from_float<Output>(finish(accumulator, column));
  }

  // Columns `column` (even) and `column` + 1, which one lane of a tensor-core fragment holds. Both
  // are finished at one place in the code, since this code is repeated for every accumulator.
  // Returns what an expression makes of them: one value with a gate, two without; 0 beyond out.
  __device__ __forceinline__ float2 store_pair(float first, float second, int column) const {
    // Without operands nothing is read, and a staged row has room beyond out: no test is needed.
    constexpr bool anywhere =
        StagesRows<Config> && !Config::has_c && !Config::has_bias && !HasExpression<Config>;
    if (!anywhere && column >= parameters.n) return float2{};
    const bool both = anywhere || column + 1 < parameters.n;
    if constexpr (HasGate<Config>) {
      const float value = expression.gate(first, second, column / 2, 1);
      out[column / 2 * stride()] = from_float<Output>(expression.stored(value));
      return make_float2(value, 0.0f);
    } else if constexpr (HasExpression<Config>) {
      const float2 pair = expression.finish(first, second, column, parameters.n - column);
      put_pair(expression.stored(pair.x), expression.stored(pair.y), column, both);
      return pair;
    }
    const float x = finish(first, column), y = finish(second, both ? column + 1 : column);
    put_pair(x, y, column, both);
    return float2{};
  }

  // The same of sums of whole numbers, which are stored as they are or finished as fp32.
  __device__ __forceinline__ float2 store_pair(int32_t first, int32_t second, int column) const {
    if constexpr (!same<Output, int32_t>) {
      return store_pair(__int2float_rn(first), __int2float_rn(second), column);
    } else if (StagesRows<Config> || column < parameters.n) {
      put_pair(first, second, column, column + 1 < parameters.n);
    }
    return float2{};
  }

  // Stores the finished values of `column` and, if it is inside the matrix too, of its neighbor.
  template <class Value>
  __device__ __forceinline__ void put_pair(Value x, Value y, int column, bool both) const {
    if constexpr (pairs) {
      if (StagesRows<Config> || both) {
        *reinterpret_cast<typename PairWord<Output>::type*>(out + column) = word_of<Output>(x, y);
        return;
      }
    }
    out[column * stride()] = element_of<Output>(x);
    if (both) out[(column + 1) * stride()] = element_of<Output>(y);
  }
};

template <class Config>
struct Epilogue {
  using Output = typename Config::Output;

  const GemmParameters& parameters;
  Output* out;
  const typename Config::Addend* c;
  const typename Config::Bias* bias;
  int batch;
  mutable Totals<Config> totals;

  __device__ Epilogue(const GemmParameters& p, int of_batch)
      : parameters(p), batch(of_batch), totals(p) {
    out = static_cast<Output*>(p.out.pointer) + batch_offset(p, p.out, batch);
    if constexpr (Config::has_c) {
      c = static_cast<const typename Config::Addend*>(p.c.pointer) + batch_offset(p, p.c, batch);
    }
    if constexpr (Config::has_bias) {
      bias = static_cast<const typename Config::Bias*>(p.bias.pointer) +
             batch_offset(p, p.bias, batch);
    }
  }

  // Row `row`. Its elements may be touched only if they are inside out.
  __device__ __forceinline__ EpilogueRow<Config> at_row(int row) const {
    EpilogueRow<Config> result{
        parameters, out + row * parameters.out.row_stride, {parameters, batch, row, totals}};
    if constexpr (Config::has_c) result.c = c + row * parameters.c.row_stride;
    if constexpr (Config::has_bias) result.bias = bias + row * parameters.bias.row_stride;
    return result;
  }
};

}  // namespace tilewright
