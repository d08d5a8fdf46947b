// Epilogues of users' own: the rows of their operands, and how a generated struct is applied.
//
// A translation unit with such an epilogue defines, behind the kernel's header,
//
//   struct EpilogueExpression : ExpressionDefaults {
//     using Output = bf16;
//     using Operands = OperandRows<OperandRow<bf16, 1, true, true>,
//                                  OperandRow<float, 0, false, false>>;
//     static __device__ __forceinline__ float apply(float acc, float bias_, float scale_) {
//       return __fmul_rn(Gelu<Output>::apply(__fadd_rn(acc, bias_)), scale_);
//     }
//   };
//
// and its Config names it as Expression (kernels/epilogue.py). With a gate, `apply` takes x and y
// in place of acc. Further outputs are its types Sums and Maximum, and sums_columns. Scales of sums
// are operands, too, ahead of the others: its type Scales, and then Zero, of A's zero points, maybe
// with the sums of B's columns; or its type Blocks, of scales that change along k, which a main
// loop reads. Behind these is Stored, the scale of the results, which further outputs do not see.
#pragma once
#include "epilogue/functions.cuh"
#include "epilogue/largest.cuh"
#include "epilogue/operand_rows.cuh"
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

// What stands for 0 in a row of A, of int8.
struct ZeroRow {
  static __device__ constexpr int count() { return 1; }
  int32_t value;

  __device__ __forceinline__ ZeroRow(const GemmParameters& parameters,
                                     const MatrixParameters* matrix, int batch, int row)
      : value(static_cast<const int32_t*>(
            matrix->pointer)[batch_offset(parameters, *matrix, batch) + row * matrix->row_stride]) {
  }
};

// What zero points of A add to a row of sums: each times the sum of a column of B, which an earlier
// launch has made.
template <class ZeroOfA, class SumOfB>
struct ShiftRow {
  static __device__ constexpr int count() { return 2; }
  ZeroOfA zero;
  SumOfB sum;

  __device__ __forceinline__ ShiftRow(const GemmParameters& parameters,
                                      const MatrixParameters* matrices, int batch, int row)
      : zero(parameters, matrices[0], batch, row), sum(parameters, matrices[1], batch, row) {}

  // That of `column` and the next, of which the first `inside` exist.
  __device__ __forceinline__ Pair<int32_t> load(int column, int inside) const {
    const Pair<int32_t> zeros = zero.load(column, inside), sums = sum.load(column, inside);
    return {zeros.first * sums.first, zeros.second * sums.second};
  }
};

// What results are divided by when they are stored, as the factor that they are multiplied by.
struct OutScale {
  static __device__ constexpr int count() { return 1; }
  float factor;

  __device__ __forceinline__ OutScale(const GemmParameters&, const MatrixParameters* matrix, int,
                                      int)
      : factor(__frcp_rn(*static_cast<const float*>(matrix->pointer))) {}
};

struct NoMatrix {
  static __device__ constexpr int count() { return 0; }
  __device__ __forceinline__ NoMatrix(const GemmParameters&, const MatrixParameters*, int, int) {}
};

// A sum times its scales.
struct ScaledSum {
  template <class... Values>
  static __device__ __forceinline__ float apply(float sum, Values... scales) {
    ((sum = __fmul_rn(sum, scales)), ...);
    return sum;
  }
};

// The scales of A for each row and 128 of k, and those of B for so many columns and 128 of k.
template <int columns_of_b>
struct BlockScales {
  static constexpr int columns = columns_of_b;
  static __device__ constexpr int count() { return 2; }
};

// What an expression has unless it says otherwise: no scales and no further outputs. sums_columns:
// its last output is the workspace of group_sums.cuh.
struct ExpressionDefaults {
  using Scales = OperandRows<>;
  using Zero = NoMatrix;
  using Blocks = NoMatrix;
  using Stored = NoMatrix;
  using Sums = NoMatrix;
  using Maximum = NoMaximum;
  static constexpr bool sums_columns = false;
};

// The number of scales and zero points, with that of results, that of all operands, and that of
// operands and outputs.
template <class Expression>
constexpr int hidden_of = Expression::Scales::count() + Expression::Zero::count() +
                          Expression::Blocks::count() + Expression::Stored::count();

template <class Expression>
constexpr int operands_of = hidden_of<Expression> + Expression::Operands::count();

template <class Expression>
constexpr int matrices_of = operands_of<Expression> + Expression::Sums::count() +
                            Expression::Maximum::count() + Expression::sums_columns;

// Those from number `first` on.
template <class Expression>
__device__ __forceinline__ const MatrixParameters* matrices(const GemmParameters& parameters,
                                                            int first) {
  constexpr int count = matrices_of<Expression>;
  if constexpr (count == 0) {
    return nullptr;
  } else {
    return static_cast<const ExpressionParameters<count>&>(parameters).operands + first;
  }
}

// The number of scales whose rows are alike, and are numbered ahead of such operands. A stacked B
// has two of each for a column, which are read where they are used.
template <class Expression, bool stacked>
constexpr int alike_scales_of = stacked ? 0 : Expression::Scales::alike();

// What a thread keeps of all results that it makes, until it is done.
template <class Expression>
struct ExpressionTotals {
  typename Expression::Maximum::Of largest;

  __device__ __forceinline__ explicit ExpressionTotals(const GemmParameters& parameters)
      : largest(matrices<Expression>(parameters,
                                     operands_of<Expression> + Expression::Sums::count())) {}
};

// An expression on one row of out, which need not exist; its operands are read, and its outputs
// written, as it is applied.
template <class Expression, bool stacked>
class ExpressionRow {
  using Scales = typename Expression::Scales;
  using Zero = typename Expression::Zero;
  using Stored = typename Expression::Stored;
  using Operands = typename Expression::Operands;
  using Sums = typename Expression::Sums;
  using Maximum = typename Expression::Maximum;
  static constexpr bool has_sums = Sums::count() == 1, has_maximum = Maximum::count() == 1;
  static constexpr int alike_scales = alike_scales_of<Expression, stacked>;
  Scales scales;
  Zero zero;
  Stored out_scale;
  Operands operands;
  Sums sums;
  Maximum maximum;
  float alpha;
  int half;    // of B's columns
  int beyond;  // more than there are columns, if the row does not exist

  // alpha times the sums of `column` and the next, times their scales; `inside` of them exist.
  template <class Ahead = ReadInPlace>
  __device__ __forceinline__ float2 scaled_pair(float first, float second, int column, int inside,
                                                const Ahead& ahead = {}) const {
    const float2 sums = make_float2(scaled(alpha, first), scaled(alpha, second));
    return scales.template apply<ScaledSum, 0>(sums, column, inside, ahead);
  }

  // The first `inside` of two results.
  __device__ __forceinline__ void see(float2 values, int inside) const {
    if constexpr (has_maximum) {
      if (inside > 0) maximum.see(values.x);
      if (inside > 1) maximum.see(values.y);
    }
  }

 public:
  __device__ __forceinline__ ExpressionRow(const GemmParameters& parameters, int batch, int row,
                                           ExpressionTotals<Expression>& totals)
      : scales(parameters, matrices<Expression>(parameters, 0), batch,
               minimum(row, parameters.m - 1)),
        zero(parameters, matrices<Expression>(parameters, Scales::count()), batch,
             minimum(row, parameters.m - 1)),
        out_scale(parameters,
                  matrices<Expression>(parameters, hidden_of<Expression> - Stored::count()), batch,
                  row),
        operands(parameters, matrices<Expression>(parameters, hidden_of<Expression>), batch,
                 minimum(row, parameters.m - 1)),
        sums(parameters, matrices<Expression>(parameters, operands_of<Expression>), batch, row),
        maximum(totals.largest, row < parameters.m),
        alpha(parameters.alpha),
        half(parameters.n / 2),
        beyond(row < parameters.m ? 0 : parameters.n) {}

  // Reads operands whose rows are alike, those from number `from` on, ahead of their use.
  template <int from, int numbers, int blocks>
  __device__ __forceinline__ void read_alike(float2 (&values)[numbers][blocks], int block,
                                             int column, int inside) const {
    if constexpr (alike_scales > 0) {
      scales.template read_alike<0, from>(values, block, column, inside);
    }
    operands.template read_alike<alike_scales, from>(values, block, column, inside);
  }

  // Brings operands to L2; for the parameters, see prefetch_sectors.
  __device__ __forceinline__ void prefetch(int column, int count, int first, int step) const {
    operands.prefetch(column, count, first, step);
  }

  // Brings operands and scales of which a row has one to L1.
  static __device__ __forceinline__ void prefetch_values(const GemmParameters& parameters,
                                                         int batch, int row) {
    row = minimum(row, parameters.m - 1);
    Scales::prefetch_values(parameters, matrices<Expression>(parameters, 0), batch, row);
    Operands::prefetch_values(parameters, matrices<Expression>(parameters, hidden_of<Expression>),
                              batch, row);
  }

  // Brings operands and scales whose rows are alike to L1; each column has so many sums.
  template <int of_column>
  __device__ __forceinline__ void prefetch_alike(int column, int count) const {
    operands.prefetch_alike(column, count);
    if constexpr (stacked) {
      scales.prefetch_alike(column, count);
      scales.prefetch_alike(column + half, count);
    } else {
      scales.prefetch_alike(of_column * column, of_column * count);
    }
  }

  // A result as it is rounded.
  __device__ __forceinline__ float stored(float value) const {
    if constexpr (Stored::count() == 1) value = __fmul_rn(value, out_scale.factor);
    return value;
  }

  // A sum of int8 less the zero point of its row times the sum of its column of B.
  __device__ __forceinline__ int32_t shifted(int32_t sum, int32_t of_b) const {
    return sum - zero.value * of_b;
  }

  // What zero points add to the sums of `column` and the next; `inside` of them exist.
  __device__ __forceinline__ Pair<int32_t> shift(int column, int inside) const {
    return zero.load(column, inside);
  }

  // The values of `column` and the next from their accumulators; `inside` of them exist.
  template <class Ahead = ReadInPlace>
  __device__ __forceinline__ float2 finish(float first, float second, int column, int inside,
                                           const Ahead& ahead = {}) const {
    const float2 acc = scaled_pair(first, second, column, inside, ahead);
    const float2 values =
        operands.template apply<Expression, alike_scales>(acc, column, inside, ahead);
    if constexpr (has_sums) sums.put(acc, column, inside - beyond);
    see(values, inside);
    return values;
  }

  // The values of `column` of out and the next, from the accumulators of both halves of a stacked
  // B; `inside` of them exist.
  template <class Ahead>
  __device__ __forceinline__ float2 gate_pair(float2 x, float2 y, int column, int inside,
                                              const Ahead& ahead) const {
    x = scaled_pair(x.x, x.y, column, inside);
    y = scaled_pair(y.x, y.y, column + half, inside);
    const float2 values = operands.template apply<Expression, 0>(x, column, inside, ahead, y);
    if constexpr (has_sums) {
      sums.put(x, column, inside - beyond);
      sums.put(y, column + half, inside - beyond);
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
      if (inside - beyond > 0) {
        sums.put(acc.x, column);
        sums.put(acc.y, column + half);
      }
    } else if constexpr (has_sums) {
      sums.put(acc, 2 * column, 2 * (inside - beyond));
    }
    see(make_float2(value, 0.0f), minimum(inside, 1));
    return value;
  }
};

// Whether rows of A have zero points, so that the main loop also sums the columns of B.
template <class Config>
concept HasZero = requires { requires Config::Expression::Zero::count() == 1; };

// Whether rows of A have zero points, and an earlier launch has summed the columns of B.
template <class Config>
concept HasShift = requires { requires Config::Expression::Zero::count() == 2; };

// Whether scales change along k, so that the main loop scales the products of each 128.
template <class Config>
concept HasBlockScales = requires { requires Config::Expression::Blocks::count() == 2; };

struct NoTotals {
  __device__ __forceinline__ explicit NoTotals(const GemmParameters&) {}
};

struct NoExpression {
  __device__ __forceinline__ NoExpression(const GemmParameters&, int, int, NoTotals&) {}
};

template <class Config>
struct ExpressionOf {
  using Row = NoExpression;
  using Totals = NoTotals;
};

template <HasExpression Config>
struct ExpressionOf<Config> {
  using Row = ExpressionRow<typename Config::Expression, Config::stacked>;
  using Totals = ExpressionTotals<typename Config::Expression>;
};

// The ExpressionRow and the ExpressionTotals of a Config, if it has an expression.
template <class Config>
using RowExpression = typename ExpressionOf<Config>::Row;

template <class Config>
using Totals = typename ExpressionOf<Config>::Totals;

}  // namespace tilewright
