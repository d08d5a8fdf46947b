// Four neighbors of a row of out, of which a thread has the sums: Config::store_elements is 4 where
// one store may write them.
#pragma once
#include "epilogue/epilogue.cuh"
#include "types.cuh"

namespace tilewright {

// For one access to memory.
template <class Element>
struct alignas(4 * sizeof(Element)) QuadWord {
  typename PairWord<Element>::type first, second;
};

// What is stored for `column` (even) and for its neighbor, of which `inside` exist.
template <class Config>
__device__ __forceinline__ float2 finish_pair(const EpilogueRow<Config>& row, float first,
                                              float second, int column, int inside) {
  if constexpr (HasExpression<Config>) {
    const float2 pair = row.expression.finish(first, second, column, inside);
    return make_float2(row.expression.stored(pair.x), row.expression.stored(pair.y));
  }
  return make_float2(row.finish(first, column),
                     row.finish(second, inside > 1 ? column + 1 : column));
}

// Finishes and stores `column` (a multiple of 4) and the three beyond, at once if out is aligned
// for it and has them all.
template <class Config>
__device__ __forceinline__ void store_quad(const EpilogueRow<Config>& row, const float* sums,
                                           int column) {
  if constexpr (Config::store_elements < 4 || HasGate<Config>) {
    row.store_pair(sums[0], sums[1], column);
    row.store_pair(sums[2], sums[3], column + 2);
  } else {
    using Output = typename Config::Output;
    const int inside = row.parameters.n - column;
    if (inside <= 0) return;
    const float2 left = finish_pair(row, sums[0], sums[1], column, inside);
    const float2 right =
        inside > 2 ? finish_pair(row, sums[2], sums[3], column + 2, inside - 2) : float2{};
    if (inside >= 4) {
      *reinterpret_cast<QuadWord<Output>*>(row.out + column) = {word_of<Output>(left.x, left.y),
                                                                word_of<Output>(right.x, right.y)};
    } else {
      row.put_pair(left.x, left.y, column, inside > 1);
      if (inside > 2) row.put_pair(right.x, right.y, column + 2, false);
    }
  }
}

}  // namespace tilewright
