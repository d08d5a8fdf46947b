// From the accumulators of m64nNk16 wgmmas to the values that are stored, each warp for its own 16
// rows.
//
// A lane holds, of every block of 8 columns, two neighbors in each of two rows (PTX ISA: "wgmma:
// register fragments"):
//
//                 column  0 1    2 3    4 5    6 7      8 9 ...
//     row 0      lanes     0      1      2      3        0        pair 0 of block 0, pair 2 ...
//     row 1                4      5      6      7        4
//     ...
//     row 8                0      1      2      3        0        pair 1 of block 0, pair 3 ...
//
// So pair q is in row q % 2 * 8 + lane / 4, columns q / 2 * 8 + lane % 4 * 2 and the next.
#pragma once
#include "epilogue/epilogue.cuh"
#include "epilogue/group_sums.cuh"
#include "epilogue/pairs.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Where the 16 x out_columns elements of one warp lie in out.
struct WarpTile {
  int row, column, batch;
};

// Config names: out_columns; c_pairs, bias_pairs: columns 2i and 2i + 1 can be read at once;
// bias_alike: all rows of the bias are one.
template <class Config>
struct WarpLayout {
  static constexpr int blocks = Config::out_columns / 8, pairs = blocks * 2;  // of a lane
  // Whether a lane has neighboring columns of out, as it has of sums.
  static constexpr bool has_neighbors = !HasGate<Config> || IsStacked<Config>;
  using Word = typename PairWord<typename Config::Output>::type;
  using Words = Word[pairs];
  using Sums = float[2 * pairs * sums_per_column<Config>];
};

// How many operands of an epilogue have rows that are all one.
template <class Config>
constexpr int alike_operands() {
  if constexpr (HasExpression<Config>) {
    return alike_scales_of<typename Config::Expression, Config::stacked> +
           Config::Expression::Operands::alike();
  } else {
    return Config::has_bias && Config::bias_alike;
  }
}

// What all rows of a tile have alike, as far as there are registers for it: read once for all of a
// lane's rows, while the last products of the tile are still under way.
template <class Config>
class WarpColumns {
  using Layout = WarpLayout<Config>;
  static constexpr int blocks = Layout::blocks;
  // The sums, long results of a row block and 40 others take the rest.
  static constexpr int results = sizeof(typename Config::Output) == 4 ? 4 * blocks : 0;
  static constexpr int room = Config::consumer_registers - Config::accumulators - results - 40;
  static constexpr int affordable =
      Layout::has_neighbors && Config::split_k == 1 ? maximum(room / (2 * blocks), 0) : 0;

 public:
  static constexpr int numbers = minimum(alike_operands<Config>(), affordable);

 private:
  float2 values[maximum(numbers, 1)][blocks];

 public:
  __device__ __forceinline__ WarpColumns(const GemmParameters& parameters, const WarpTile& at,
                                         Totals<Config>& totals) {
    if constexpr (numbers > 0) {
      const int column = at.column + threadIdx.x % 4 * 2;
      const int inside = parameters.n / sums_per_column<Config> - column;
      if constexpr (HasExpression<Config>) {
        const RowExpression<Config> row(parameters, at.batch, 0, totals);
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
          row.template read_alike<0>(values, block, column + block * 8, inside - block * 8);
        }
      } else {
        const EpilogueRow<Config> row = Epilogue<Config>(parameters, at.batch).at_row(0);
        const int64_t stride = Config::bias_pairs ? 1 : parameters.bias.column_stride;
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
          values[0][block] = load_numbers<Config::bias_pairs>(
              row.bias + (column + block * 8) * stride, stride, inside - block * 8);
        }
      }
      // Converted now, and not when the sums are there.
#pragma unroll
      for (auto& of_operand : values) {
#pragma unroll
        for (float2& pair : of_operand) asm volatile("" : "+f"(pair.x), "+f"(pair.y));
      }
    }
  }

  // What epilogues ask for operands of a block, in both rows of a lane.
  class OfBlock {
    static constexpr int others = Layout::has_neighbors ? alike_operands<Config>() - numbers : 0;
    const WarpColumns& columns;
    int block;
    float2 read[maximum(others, 1)][1];  // those for which there were no registers

   public:
    __device__ __forceinline__ OfBlock(const WarpColumns& of_tile, const RowExpression<Config>& row,
                                       int block_of_tile, int column, int inside)
        : columns(of_tile), block(block_of_tile) {
      if constexpr (others > 0) row.template read_alike<numbers>(read, 0, column, inside);
    }

    template <int number, class Row>
    __device__ __forceinline__ float2 load(const Row&, int, int) const {
      if constexpr (number < numbers) {
        return columns.values[number][block];
      } else {
        return read[number - numbers][0];
      }
    }
  };

  // The bias of a lane's columns of a block, without an expression.
  __device__ __forceinline__ float2 bias(int block) const { return values[0][block]; }
};

// Brings what the epilogue reads of a warp's rows to L2, where its own loads find it later. Two
// lanes share a row.
template <class Config>
__device__ __forceinline__ void prefetch_rows(const GemmParameters& parameters, const WarpTile& at,
                                              Totals<Config>& totals) {
  const int lane = threadIdx.x % 32, row = at.row + lane % 16;
  const int inside = minimum(parameters.n / sums_per_column<Config> - at.column,
                             row < parameters.m ? Config::out_columns : 0);
  if constexpr (HasExpression<Config>) {
    RowExpression<Config>(parameters, at.batch, row, totals)
        .prefetch(at.column, inside, lane / 16, 2);
    RowExpression<Config>::prefetch_values(parameters, at.batch, row);
  } else if constexpr (Config::has_c && Config::c_pairs) {
    prefetch_sectors(Epilogue<Config>(parameters, at.batch).at_row(row).c + at.column, inside,
                     lane / 16, 2);
  }
}

// Brings what all rows of a tile have alike to L1: while the ring is filled, L2 is slow to answer.
template <class Config>
__device__ __forceinline__ void prefetch_columns(const GemmParameters& parameters,
                                                 const WarpTile& at, Totals<Config>& totals) {
  const int count =
      minimum(parameters.n / sums_per_column<Config> - at.column, Config::out_columns);
  if constexpr (HasExpression<Config>) {
    RowExpression<Config>(parameters, at.batch, 0, totals)
        .template prefetch_alike<sums_per_column<Config>>(at.column, count);
  } else if constexpr (Config::has_bias && Config::bias_alike && Config::bias_pairs) {
    prefetch_by_warpgroup(Epilogue<Config>(parameters, at.batch).at_row(0).bias + at.column, count);
  }
}

// A lane's two rows of 16, for expressions: what is alike along each is read here.
template <class Config>
struct WarpRows {
  __device__ __forceinline__ WarpRows(const GemmParameters&, const WarpTile&, Totals<Config>&) {}
};

template <HasExpression Config>
struct WarpRows<Config> {
  RowExpression<Config> row[2];

  __device__ __forceinline__ WarpRows(const GemmParameters& parameters, const WarpTile& at,
                                      Totals<Config>& totals)
      : WarpRows(parameters, at.batch, first(at), totals) {}

 private:
  __device__ __forceinline__ WarpRows(const GemmParameters& parameters, int batch, int first,
                                      Totals<Config>& totals)
      : row{{parameters, batch, first, totals}, {parameters, batch, first + 8, totals}} {}

  // The compiler must not keep values derived from it in registers until the next row block.
  static __device__ __forceinline__ int first(const WarpTile& at) {
    int row = at.row + threadIdx.x % 32 / 4;
    asm volatile("" : "+r"(row));
    return row;
  }
};

// Applies the epilogue to a warp's accumulators.
template <class Config>
class WarpFinish {
  using Output = typename Config::Output;
  using Layout = WarpLayout<Config>;
  using Word = typename Layout::Word;
  using Words = typename Layout::Words;
  using Sums = typename Layout::Sums;
  static constexpr int blocks = Layout::blocks, pairs = Layout::pairs;

  const GemmParameters& parameters;
  int lane = threadIdx.x % 32;

  // The number of elements of out from here to the end of the row; 0 or less if there are none.
  __device__ __forceinline__ int columns_inside(int row, int column) const {
    return row < parameters.m ? parameters.n / sums_per_column<Config> - column : 0;
  }

  // Lane l of a row has columns l and l + 4 of eight; afterwards it has 2l and 2l + 1 (lanes modulo
  // 4).
  __device__ __forceinline__ Word gathered(float low, float high) const {
    const int even = lane / 4 * 4 + lane % 2 * 2;
    if constexpr (sizeof(Output) == 2) {
      const uint32_t both = word_of<Output>(low, high);
      const uint32_t first = __shfl_sync(0xFFFFFFFF, both, even);
      const uint32_t second = __shfl_sync(0xFFFFFFFF, both, even + 1);
      return __byte_perm(first, second, lane % 4 < 2 ? 0x5410 : 0x7632);
    } else {
      const float lows[2] = {__shfl_sync(0xFFFFFFFF, low, even),
                             __shfl_sync(0xFFFFFFFF, low, even + 1)};
      const float highs[2] = {__shfl_sync(0xFFFFFFFF, high, even),
                              __shfl_sync(0xFFFFFFFF, high, even + 1)};
      return lane % 4 < 2 ? word_of<Output>(lows[0], lows[1]) : word_of<Output>(highs[0], highs[1]);
    }
  }

  // A lane's sums from number i on, of `column` and the next; `inside` of them exist. Whole numbers
  // less what the zero point of their row adds.
  template <class Sum, int count>
  __device__ __forceinline__ float2 sums_at(const Sum (&accumulators)[count], int i,
                                            const RowExpression<Config>& row, int column,
                                            int inside) const {
    if constexpr (HasShift<Config>) {
      const Pair<int32_t> less = row.shift(column, inside);
      return make_float2(__int2float_rn(accumulators[i] - less.first),
                         __int2float_rn(accumulators[i + 1] - less.second));
    } else {
      return make_float2(accumulators[i], accumulators[i + 1]);
    }
  }

  // Applies the expression to the lane's columns of a block in one of its two rows; returns their
  // values. Behind a gate of neighbors they are not those that it stores. `column`: the first of
  // these in block 0. inside: how many columns there are from the first of this block on.
  template <class Accumulators>
  __device__ __forceinline__ float2 finish_block(Words& words, const Accumulators& accumulators,
                                                 const RowExpression<Config>& row,
                                                 const typename WarpColumns<Config>::OfBlock& alike,
                                                 int column, int inside, int block,
                                                 int half) const {
    float2 values;
    Word& word = words[block * 2 + half];
    if constexpr (IsStacked<Config>) {
      // The sums have the pairs' first columns in the first half of their blocks.
      const int first = (block * 2 + half) * 2, of_x = column + block * 8;
      const float2 x = sums_at(accumulators, first, row, of_x, inside);
      const float2 y =
          sums_at(accumulators, first + 2 * pairs, row, of_x + parameters.n / 2, inside);
      values = row.gate_pair(x, y, of_x, inside, alike);
      word = word_of<Output>(row.stored(values.x), row.stored(values.y));
    } else if constexpr (HasGate<Config>) {
      // Of each of two blocks of sums, a lane has one column of out.
      const int first = (block * 4 + half) * 2, at = column + block * 8;
      const float2 low = sums_at(accumulators, first, row, 2 * at, 2 * inside);
      const float2 high = sums_at(accumulators, first + 4, row, 2 * at + 8, 2 * inside - 8);
      values.x = row.gate(low.x, low.y, at, inside);
      values.y = row.gate(high.x, high.y, at + 4, inside - 4);
      word = gathered(row.stored(values.x), row.stored(values.y));
    } else {
      const int first = (block * 2 + half) * 2;
      const float2 sums = sums_at(accumulators, first, row, column + block * 8, inside);
      values = row.finish(sums.x, sums.y, column + block * 8, inside, alike);
      word = word_of<Output>(row.stored(values.x), row.stored(values.y));
    }
    return values;
  }

  // Finishes both rows of a block together, so that what they have alike is read once.
  template <class Accumulators>
  __device__ __forceinline__ void finish_expression(Words& words, const Accumulators& accumulators,
                                                    const WarpTile& at,
                                                    const WarpColumns<Config>& columns,
                                                    const WarpRows<Config>& rows) const {
    int column = at.column + (Layout::has_neighbors ? lane % 4 * 2 : lane % 4);
    // The compiler must not keep values derived from it in registers until the next row block.
    asm volatile("" : "+r"(column));
    const auto finish_both = [&](int block, float2(&values)[2]) {
      const int inside = parameters.n / sums_per_column<Config> - column - block * 8;
      const typename WarpColumns<Config>::OfBlock alike(columns, rows.row[0], block,
                                                        column + block * 8, inside);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        values[half] =
            finish_block(words, accumulators, rows.row[half], alike, column, inside, block, half);
      }
    };
    float2 values[2];
    if constexpr (HasColumnSums<Config>) {
      WarpGroupSums<Config, blocks, Layout::has_neighbors> sums(parameters, at.batch, at.row,
                                                                at.column);
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        finish_both(block, values);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (at.row + lane / 4 + half * 8 >= parameters.m) values[half] = float2{};
        }
        sums.add(block, values[0], values[1]);
      }
    } else {
#pragma unroll
      for (int block = 0; block < blocks; ++block) finish_both(block, values);
    }
  }

  // Finishes one of a lane's two rows after the other.
  __device__ __forceinline__ void finish_linear(Words& words, const Sums& accumulators,
                                                const WarpTile& at,
                                                const WarpColumns<Config>& columns) const {
    const Epilogue<Config> epilogue(parameters, at.batch);
    int row = at.row + lane / 4, column = at.column + lane % 4 * 2;
    // The compiler must not keep values derived from these in registers until the next row block.
    asm volatile("" : "+r"(row), "+r"(column));
    const int64_t c_stride = Config::c_pairs ? 1 : parameters.c.column_stride;
    const int64_t bias_stride = Config::bias_pairs ? 1 : parameters.bias.column_stride;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const EpilogueRow<Config> epilogue_row = epilogue.at_row(row + half * 8);
      const typename Config::Addend* c = epilogue_row.c + column * c_stride;
      const typename Config::Bias* bias = epilogue_row.bias + column * bias_stride;
      const int inside = columns_inside(row + half * 8, column);
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        const int q = block * 2 + half;
        Pair<typename Config::Addend> c_pair{};
        float2 addend{};
        if constexpr (Config::has_c) {
          c_pair = load_pair<Config::c_pairs>(c, c_stride, inside - block * 8);
          c += 8 * c_stride;
        }
        if constexpr (Config::has_bias && WarpColumns<Config>::numbers > 0) {
          addend = columns.bias(block);
        } else if constexpr (Config::has_bias) {
          addend = load_numbers<Config::bias_pairs>(bias, bias_stride, inside - block * 8);
          bias += 8 * bias_stride;
        }
        words[q] =
            word_of<Output>(epilogue_row.combine(accumulators[2 * q], c_pair.first, addend.x),
                            epilogue_row.combine(accumulators[2 * q + 1], c_pair.second, addend.y));
      }
    }
  }

 public:
  __device__ __forceinline__ explicit WarpFinish(const GemmParameters& p) : parameters(p) {}

  __device__ __forceinline__ void operator()(Words& words, const Sums& accumulators,
                                             const WarpTile& at, const WarpColumns<Config>& columns,
                                             const WarpRows<Config>& rows) const {
    if constexpr (HasExpression<Config>) {
      finish_expression(words, accumulators, at, columns, rows);
    } else {
      finish_linear(words, accumulators, at, columns);
    }
  }

  // The same of sums of whole numbers, which are stored as they are or finished as fp32.
  template <int count>
  __device__ __forceinline__ void operator()(Words& words, const int32_t (&accumulators)[count],
                                             const WarpTile& at, const WarpColumns<Config>& columns,
                                             const WarpRows<Config>& rows) const {
    if constexpr (HasShift<Config>) {
      finish_expression(words, accumulators, at, columns, rows);
    } else if constexpr (same<Output, int32_t>) {
#pragma unroll
      for (int q = 0; q < pairs; ++q) {
        words[q] = word_of<Output>(accumulators[2 * q], accumulators[2 * q + 1]);
      }
    } else {
      Sums sums;
#pragma unroll
      for (int i = 0; i < count; ++i) sums[i] = __int2float_rn(accumulators[i]);
      (*this)(words, sums, at, columns, rows);
    }
  }
};

}  // namespace tilewright
