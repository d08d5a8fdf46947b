// Epilogues of users' own: the rows of their operands, and how a generated struct is applied.
//
// A translation unit with such an epilogue defines, behind the kernel's header,
//
//   struct EpilogueExpression {
//     using Operands = OperandRows<OperandRow<bf16, 1, true>, OperandRow<float, 0, false>>;
//     static __device__ __forceinline__ float apply(float acc, float bias_, float scale_) {
//       return Gelu::apply(acc + bias_) * scale_;
//     }
//   };
//
// and its Config names it as Expression (kernels/epilogue.py). With a gate, `apply` takes x and y
// in place of acc.
#pragma once
#include "epilogue/functions.cuh"
#include "epilogue/pairs.cuh"
#include "epilogue/scaled.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
concept HasExpression = requires { typename Config::Expression; };

// Whether it takes two neighboring columns of sums, and makes one column of out of them.
template <class Config>
concept HasGate = requires { requires Config::gated; };

// Whether these are columns j and j + n / 2 of B, rather than 2j and 2j + 1.
template <class Config>
concept IsStacked = requires { requires Config::stacked; };

// Columns of sums for each column of out.
template <class Config>
constexpr int sums_per_column = HasGate<Config> ? 2 : 1;

// The parameters of a kernel whose expression has so many operands.
template <int count>
struct ExpressionParameters : GemmParameters {
  MatrixParameters operands[count];  // (m, n), broadcast dimensions with stride 0
};

// One row of an operand. step: from an element to its neighbor, 1, or -1 if it is known at run time
// alone. pairs: columns 2i and 2i + 1 can be read at once.
template <class Element, int step, bool pairs>
struct OperandRow {
  const Element* elements;
  int64_t stride;

  __device__ __forceinline__ OperandRow(const MatrixParameters& matrix, int64_t offset, bool)
      : elements(static_cast<const Element*>(matrix.pointer) + offset),
        stride(step == 1 ? 1 : matrix.column_stride) {}

  // `column` and the next; of these, the first `inside` exist, and the others count as 0.
  __device__ __forceinline__ float2 load(int column, int inside) const {
    const Pair<Element> pair = load_pair<pairs>(elements + column * stride, stride, inside);
    return make_float2(to_float(pair.first), to_float(pair.second));
  }
};

// All elements of the row are one, which is read once.
template <class Element>
struct OperandRow<Element, 0, false> {
  float value = 0.0f;

  __device__ __forceinline__ OperandRow(const MatrixParameters& matrix, int64_t offset,
                                        bool exists) {
    if (exists) value = to_float(static_cast<const Element*>(matrix.pointer)[offset]);
  }

  __device__ __forceinline__ float2 load(int, int) const { return make_float2(value, value); }
};

// One row of all operands.
template <class... Rows>
struct OperandRows;

template <>
struct OperandRows<> {
  static __device__ constexpr int count() { return 0; }

  __device__ __forceinline__ OperandRows(const GemmParameters&, const MatrixParameters*, int, int) {
  }

  template <class Expression, class... Values>
  static __device__ __forceinline__ float2 apply(float2 acc, int, int, Values... values) {
    return make_float2(Expression::apply(acc.x, values.x...),
                       Expression::apply(acc.y, values.y...));
  }

  template <class Expression, class... Values>
  static __device__ __forceinline__ float gate(float2 acc, int, int, Values... values) {
    return Expression::apply(acc.x, acc.y, values.x...);
  }
};

template <class First, class... Others>
struct OperandRows<First, Others...> {
  static __device__ constexpr int count() { return 1 + sizeof...(Others); }
  First first;
  OperandRows<Others...> others;

  __device__ __forceinline__ OperandRows(const GemmParameters& parameters,
                                         const MatrixParameters* operands, int batch, int row)
      : first(*operands, batch_offset(parameters, *operands, batch) + row * operands->row_stride,
              row < parameters.m),
        others(parameters, operands + 1, batch, row) {}

  template <class Expression, class... Values>
  __device__ __forceinline__ float2 apply(float2 acc, int column, int inside,
                                          Values... values) const {
    return others.template apply<Expression>(acc, column, inside, values...,
                                             first.load(column, inside));
  }

  template <class Expression, class... Values>
  __device__ __forceinline__ float gate(float2 acc, int column, int inside,
                                        Values... values) const {
    return others.template gate<Expression>(acc, column, inside, values...,
                                            first.load(column, inside));
  }
};

// An expression on one row of out; its operands are read as it is applied.
template <class Expression>
class ExpressionRow {
  using Operands = typename Expression::Operands;
  Operands operands;
  float alpha;

  static __device__ __forceinline__ const MatrixParameters* operands_of(
      const GemmParameters& parameters) {
    if constexpr (Operands::count() == 0) {
      return nullptr;
    } else {
      return static_cast<const ExpressionParameters<Operands::count()>&>(parameters).operands;
    }
  }

 public:
  __device__ __forceinline__ ExpressionRow(const GemmParameters& parameters, int batch, int row)
      : operands(parameters, operands_of(parameters), batch, row), alpha(parameters.alpha) {}

  // The values of `column` and the next from their accumulators; `inside` of them exist.
  __device__ __forceinline__ float2 finish(float first, float second, int column,
                                           int inside) const {
    return operands.template apply<Expression>(
        make_float2(scaled(alpha, first), scaled(alpha, second)), column, inside);
  }

  // The value of `column` of out from its two accumulators; it exists if `inside` is positive.
  __device__ __forceinline__ float gate(float x, float y, int column, int inside) const {
    return operands.template gate<Expression>(make_float2(scaled(alpha, x), scaled(alpha, y)),
                                              column, inside);
  }
};

struct NoExpression {
  __device__ __forceinline__ NoExpression(const GemmParameters&, int, int) {}
};

template <class Config>
struct RowExpressionOf {
  using Type = NoExpression;
};

template <HasExpression Config>
struct RowExpressionOf<Config> {
  using Type = ExpressionRow<typename Config::Expression>;
};

// The ExpressionRow of a Config, if it has an expression.
template <class Config>
using RowExpression = typename RowExpressionOf<Config>::Type;

}  // namespace tilewright
