// The operands of an expression, row by row of out.
#pragma once
#include "epilogue/pairs.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// One row of an operand. step: from an element to its neighbor, 1, or -1 if it is known at run time
// alone. pairs: columns 2i and 2i + 1 can be read at once. alike: all rows are one.
template <class Element, int step, bool pairs, bool alike>
struct OperandRow {
  static constexpr bool is_alike = alike;
  const Element* elements;
  int64_t stride;

  __device__ __forceinline__ OperandRow(const GemmParameters& parameters,
                                        const MatrixParameters& matrix, int batch, int row)
      : elements(static_cast<const Element*>(matrix.pointer) +
                 batch_offset(parameters, matrix, batch) + (alike ? 0 : row * matrix.row_stride)),
        stride(step == 1 ? 1 : matrix.column_stride) {}

  // `column` and the next; of these, the first `inside` exist, and the others count as 0.
  __device__ __forceinline__ float2 load(int column, int inside) const {
    return load_numbers<pairs>(elements + column * stride, stride, inside);
  }

  // For the parameters, see prefetch_sectors.
  __device__ __forceinline__ void prefetch(int column, int count, int first,
                                           int sector_step) const {
    if constexpr (step == 1 && !alike)
      prefetch_sectors(elements + column, count, first, sector_step);
  }

  __device__ __forceinline__ void prefetch_alike(int column, int count) const {
    if constexpr (step == 1 && alike) prefetch_by_warpgroup(elements + column, count);
  }

  static __device__ __forceinline__ void prefetch_value(const GemmParameters&,
                                                        const MatrixParameters&, int, int) {}
};

// All elements of the row are one, which is read once.
template <class Element, bool alike>
struct OperandRow<Element, 0, false, alike> {
  static constexpr bool is_alike = false;
  float value;

  __device__ __forceinline__ OperandRow(const GemmParameters& parameters,
                                        const MatrixParameters& matrix, int batch, int row)
      : value(to_float(*address(parameters, matrix, batch, row))) {}

  __device__ __forceinline__ float2 load(int, int) const { return make_float2(value, value); }

  __device__ __forceinline__ void prefetch(int, int, int, int) const {}
  __device__ __forceinline__ void prefetch_alike(int, int) const {}

  static __device__ __forceinline__ void prefetch_value(const GemmParameters& parameters,
                                                        const MatrixParameters& matrix, int batch,
                                                        int row) {
    if constexpr (!alike) prefetch_to_l1(address(parameters, matrix, batch, row));
  }

 private:
  static __device__ __forceinline__ const Element* address(const GemmParameters& parameters,
                                                           const MatrixParameters& matrix,
                                                           int batch, int row) {
    return static_cast<const Element*>(matrix.pointer) + batch_offset(parameters, matrix, batch) +
           row * matrix.row_stride;
  }
};

// One row of an operand of whole numbers; its constants as above.
template <int step, bool pairs, bool alike>
struct WholeRow {
  const int32_t* elements;
  int64_t stride;

  __device__ __forceinline__ WholeRow(const GemmParameters& parameters,
                                      const MatrixParameters& matrix, int batch, int row)
      : elements(static_cast<const int32_t*>(matrix.pointer) +
                 batch_offset(parameters, matrix, batch) + (alike ? 0 : row * matrix.row_stride)),
        stride(step == 1 ? 1 : matrix.column_stride) {}

  // `column` and the next; of these, the first `inside` exist, and the others count as 0.
  __device__ __forceinline__ Pair<int32_t> load(int column, int inside) const {
    return load_pair<pairs>(elements + column * stride, stride, inside);
  }
};

// All elements of the row are one, which is read once.
template <bool alike>
struct WholeRow<0, false, alike> {
  int32_t value;

  __device__ __forceinline__ WholeRow(const GemmParameters& parameters,
                                      const MatrixParameters& matrix, int batch, int row)
      : value(static_cast<const int32_t*>(
            matrix.pointer)[batch_offset(parameters, matrix, batch) + row * matrix.row_stride]) {}

  __device__ __forceinline__ Pair<int32_t> load(int, int) const { return {value, value}; }
};

// Operands whose rows are alike have numbers, in their order; this reads all where they are used.
struct ReadInPlace {
  template <int number, class Row>
  __device__ __forceinline__ float2 load(const Row& row, int column, int inside) const {
    return row.load(column, inside);
  }
};

// One row of all operands.
template <class... Rows>
struct OperandRows;

template <>
struct OperandRows<> {
  static __device__ constexpr int count() { return 0; }
  static __device__ constexpr int alike() { return 0; }

  __device__ __forceinline__ OperandRows(const GemmParameters&, const MatrixParameters*, int, int) {
  }

  template <class Expression, int number, class Ahead, class... Values>
  static __device__ __forceinline__ float2 apply(float2 acc, int, int, const Ahead&,
                                                 Values... values) {
    return make_float2(Expression::apply(acc.x, values.x...),
                       Expression::apply(acc.y, values.y...));
  }

  template <class Expression, class... Values>
  static __device__ __forceinline__ float gate(float2 acc, int, int, Values... values) {
    return Expression::apply(acc.x, acc.y, values.x...);
  }

  template <int number, int from, class Values>
  static __device__ __forceinline__ void read_alike(Values&, int, int, int) {}

  static __device__ __forceinline__ void prefetch(int, int, int, int) {}
  static __device__ __forceinline__ void prefetch_alike(int, int) {}
  static __device__ __forceinline__ void prefetch_values(const GemmParameters&,
                                                         const MatrixParameters*, int, int) {}
};

template <class First, class... Others>
struct OperandRows<First, Others...> {
  static __device__ constexpr int count() { return 1 + sizeof...(Others); }
  static __device__ constexpr int alike() { return (First::is_alike + ... + Others::is_alike); }
  First first;
  OperandRows<Others...> others;

  // `row` is inside the matrix.
  __device__ __forceinline__ OperandRows(const GemmParameters& parameters,
                                         const MatrixParameters* operands, int batch, int row)
      : first(parameters, *operands, batch, row), others(parameters, operands + 1, batch, row) {}

  // number: of the next operand whose rows are alike.
  template <class Expression, int number, class Ahead, class... Values>
  __device__ __forceinline__ float2 apply(float2 acc, int column, int inside, const Ahead& ahead,
                                          Values... values) const {
    return others.template apply<Expression, number + First::is_alike>(
        acc, column, inside, ahead, values..., load<number>(ahead, column, inside));
  }

  template <class Expression, class... Values>
  __device__ __forceinline__ float gate(float2 acc, int column, int inside,
                                        Values... values) const {
    return others.template gate<Expression>(acc, column, inside, values...,
                                            first.load(column, inside));
  }

  // Reads what is alike into values[number - from][block], for the numbers that it has.
  template <int number, int from, int numbers, int blocks>
  __device__ __forceinline__ void read_alike(float2 (&values)[numbers][blocks], int block,
                                             int column, int inside) const {
    if constexpr (First::is_alike && from <= number && number < from + numbers) {
      values[number - from][block] = first.load(column, inside);
    }
    others.template read_alike<number + First::is_alike, from>(values, block, column, inside);
  }

  // Brings what is not alike to L2; for the parameters, see prefetch_sectors.
  __device__ __forceinline__ void prefetch(int column, int count, int first_sector,
                                           int step) const {
    first.prefetch(column, count, first_sector, step);
    others.prefetch(column, count, first_sector, step);
  }

  // Brings what is alike to L1, for all rows.
  __device__ __forceinline__ void prefetch_alike(int column, int count) const {
    first.prefetch_alike(column, count);
    others.prefetch_alike(column, count);
  }

  // Brings what all of a row have alike to L1.
  static __device__ __forceinline__ void prefetch_values(const GemmParameters& parameters,
                                                         const MatrixParameters* operands,
                                                         int batch, int row) {
    First::prefetch_value(parameters, *operands, batch, row);
    OperandRows<Others...>::prefetch_values(parameters, operands + 1, batch, row);
  }

 private:
  template <int number, class Ahead>
  __device__ __forceinline__ float2 load(const Ahead& ahead, int column, int inside) const {
    if constexpr (First::is_alike) return ahead.template load<number>(first, column, inside);
    return first.load(column, inside);
  }
};

}  // namespace tilewright
