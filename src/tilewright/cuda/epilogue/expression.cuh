// Epilogues of users' own: the rows of their operands, and how a generated struct is applied.
//
// A translation unit with such an epilogue defines, behind the kernel's header,
//
//   struct EpilogueExpression : ExpressionDefaults {
//     using Output = bf16;
//     using Operands = OperandRows<OperandRow<bf16, 1, true>, OperandRow<float, 0, false>>;
//     static __device__ __forceinline__ float apply(float acc, float bias_, float scale_) {
//       return __fmul_rn(Gelu<Output>::apply(__fadd_rn(acc, bias_)), scale_);
//     }
//   };
//
// and its Config names it as Expression (kernels/epilogue.py). With a gate, `apply` takes x and y
// in place of acc. Further outputs are its types Sums and Maximum, and sums_columns. Scales of sums
// are operands, too, ahead of the others: its type Scales.
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

// The parameters of a kernel whose expression has so many operands and outputs, in this order.
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

// One row of the output of sums.
template <class Element, int step, bool pairs>
struct SumsRow {
  static __device__ constexpr int count() { return 1; }
  Element* elements;
  int64_t stride;

  __device__ __forceinline__ SumsRow(const GemmParameters& parameters,
                                     const MatrixParameters* matrix, int batch, int row)
      : elements(static_cast<Element*>(matrix->pointer) + batch_offset(parameters, *matrix, batch) +
                 row * matrix->row_stride),
        stride(step == 1 ? 1 : matrix->column_stride) {}

  // Stores a sum.
  __device__ __forceinline__ void put(float sum, int column) const {
    elements[column * stride] = from_float<Element>(sum);
  }

  // Stores those of `column` and the next, of which the first `inside` exist.
  __device__ __forceinline__ void put(float2 sums, int column, int inside) const {
    if constexpr (pairs) {
      if (inside > 0) {
        *reinterpret_cast<typename PairWord<Element>::type*>(elements + column) =
            word_of<Element>(sums.x, sums.y);
      }
    } else {
      if (inside > 0) put(sums.x, column);
      if (inside > 1) put(sums.y, column + 1);
    }
  }
};

// The largest magnitude of a row's results, in an output that is 0 at first. Numbers that are not
// negative are in the order of their bits, and NaN comes after all others.
struct MaximumRow {
  static __device__ constexpr int count() { return 1; }
  uint32_t* const largest;
  mutable uint32_t found = 0;

  __device__ __forceinline__ MaximumRow(const GemmParameters&, const MatrixParameters* matrix, int,
                                        int)
      : largest(static_cast<uint32_t*>(matrix->pointer)) {}

  __device__ __forceinline__ void see(float value) const {
    const uint32_t bits = __float_as_uint(fabsf(value));
    found = bits > found ? bits : found;
  }

  // What has been read may have grown since, but never shrinks.
  __device__ __forceinline__ ~MaximumRow() {
    if (found > *static_cast<volatile const uint32_t*>(largest)) atomicMax(largest, found);
  }
};

struct NoOutput {
  static __device__ constexpr int count() { return 0; }
  __device__ __forceinline__ NoOutput(const GemmParameters&, const MatrixParameters*, int, int) {}
};

// A sum times its scales.
struct ScaledSum {
  template <class... Values>
  static __device__ __forceinline__ float apply(float sum, Values... scales) {
    ((sum = __fmul_rn(sum, scales)), ...);
    return sum;
  }
};

// What an expression has unless it says otherwise: no scales and no further outputs. sums_columns:
// its last output is the workspace of group_sums.cuh.
struct ExpressionDefaults {
  using Scales = OperandRows<>;
  using Sums = NoOutput;
  using Maximum = NoOutput;
  static constexpr bool sums_columns = false;
};

// The number of operands and outputs.
template <class Expression>
constexpr int matrices_of =
    Expression::Scales::count() + Expression::Operands::count() + Expression::Sums::count() +
    Expression::Maximum::count() + Expression::sums_columns;

// An expression on one row of out; its operands are read, and its outputs written, as it is
// applied.
template <class Expression, bool stacked>
class ExpressionRow {
  using Scales = typename Expression::Scales;
  using Operands = typename Expression::Operands;
  using Sums = typename Expression::Sums;
  using Maximum = typename Expression::Maximum;
  static constexpr bool has_sums = Sums::count() == 1, has_maximum = Maximum::count() == 1;
  Scales scales;
  Operands operands;
  Sums sums;
  Maximum maximum;
  float alpha;
  int half;  // of B's columns

  static __device__ constexpr int read() { return Scales::count() + Operands::count(); }

  // Those from number `first` on.
  static __device__ __forceinline__ const MatrixParameters* matrices(
      const GemmParameters& parameters, int first) {
    constexpr int count = matrices_of<Expression>;
    if constexpr (count == 0) {
      return nullptr;
    } else {
      return static_cast<const ExpressionParameters<count>&>(parameters).operands + first;
    }
  }

  // alpha times the sums of `column` and the next, times their scales; `inside` of them exist.
  __device__ __forceinline__ float2 scaled_pair(float first, float second, int column,
                                                int inside) const {
    const float2 sums = make_float2(scaled(alpha, first), scaled(alpha, second));
    return scales.template apply<ScaledSum>(sums, column, inside);
  }

  // The first `inside` of two results.
  __device__ __forceinline__ void see(float2 values, int inside) const {
    if constexpr (has_maximum) {
      if (inside > 0) maximum.see(values.x);
      if (inside > 1) maximum.see(values.y);
    }
  }

 public:
  __device__ __forceinline__ ExpressionRow(const GemmParameters& parameters, int batch, int row)
      : scales(parameters, matrices(parameters, 0), batch, row),
        operands(parameters, matrices(parameters, Scales::count()), batch, row),
        sums(parameters, matrices(parameters, read()), batch, row),
        maximum(parameters, matrices(parameters, read() + Sums::count()), batch, row),
        alpha(parameters.alpha),
        half(parameters.n / 2) {}

  // The values of `column` and the next from their accumulators; `inside` of them exist.
  __device__ __forceinline__ float2 finish(float first, float second, int column,
                                           int inside) const {
    const float2 acc = scaled_pair(first, second, column, inside);
    const float2 values = operands.template apply<Expression>(acc, column, inside);
    if constexpr (has_sums) sums.put(acc, column, inside);
    see(values, inside);
    return values;
  }

  // The values of `column` of out and the next, from the accumulators of both halves of a stacked
  // B; `inside` of them exist.
  __device__ __forceinline__ float2 gate_pair(float2 x, float2 y, int column, int inside) const {
    x = scaled_pair(x.x, x.y, column, inside);
    y = scaled_pair(y.x, y.y, column + half, inside);
    const float2 values = operands.template apply<Expression>(x, column, inside, y);
    if constexpr (has_sums) {
      sums.put(x, column, inside);
      sums.put(y, column + half, inside);
    }
    see(values, inside);
    return values;
  }

  // The value of `column` of out from its two accumulators; it exists if `inside` is positive.
  __device__ __forceinline__ float gate(float x, float y, int column, int inside) const {
    float2 acc;
    if constexpr (stacked) {
      acc = make_float2(scaled_pair(x, 0.0f, column, minimum(inside, 1)).x,
                        scaled_pair(y, 0.0f, column + half, minimum(inside, 1)).x);
    } else {
      acc = scaled_pair(x, y, 2 * column, 2 * inside);
    }
    const float value = operands.template gate<Expression>(acc, column, inside);
    if constexpr (has_sums && stacked) {
      if (inside > 0) {
        sums.put(acc.x, column);
        sums.put(acc.y, column + half);
      }
    } else if constexpr (has_sums) {
      sums.put(acc, 2 * column, 2 * inside);
    }
    see(make_float2(value, 0.0f), minimum(inside, 1));
    return value;
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
  using Type = ExpressionRow<typename Config::Expression, Config::stacked>;
};

// The ExpressionRow of a Config, if it has an expression.
template <class Config>
using RowExpression = typename RowExpressionOf<Config>::Type;

}  // namespace tilewright
