// out = activation(beta * c + bias): a product whose sum is empty.
//
// One CTA makes one (tile_m, tile_n) tile of out. A warp takes every warps-th row of it, and a lane
// pairs of neighboring columns, 64 columns apart, so that the lanes of a warp read and write whole
// sectors, however the rows are aligned. A lane reads all of its elements before it uses one:
// memory is kept busy by what is in flight. There is little else to do, so every instruction that
// an element takes shows: strides of 1 are compiled in, and a tile inside out has no tests.
#pragma once
#include "epilogue/epilogue.cuh"
#include "layout/raster.cuh"
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

// One lane's elements of c or of bias in one row: pairs of neighbors, 64 columns apart.
template <class Element, int pairs, bool unit_strides>
struct RowElements {
  Element values[pairs][2] = {};

  // Those at `column`, with `left` columns from there to the end of the row.
  template <bool whole>
  __device__ __forceinline__ void load(const Element* row, const MatrixParameters& matrix,
                                       int column, int left) {
    const int64_t stride = unit_strides ? 1 : matrix.column_stride;
    const Element* source = row + column * stride;
#pragma unroll
    for (int i = 0; i < 2 * pairs; ++i) {
      const int ahead = i / 2 * 64 + i % 2;
      if (whole || ahead < left) values[i / 2][i % 2] = source[ahead * stride];
    }
  }
};

// The lane's part of a tile, from row `first_row` and column `first_column` on. `whole`: the tile
// is inside out.
template <class Config, bool whole>
__device__ __forceinline__ void copy_tile(const GemmParameters& parameters, int batch,
                                          int first_row, int first_column) {
  constexpr int warps = Config::threads / 32;
  constexpr int rows = Config::tile_m / warps, pairs = Config::tile_n / 64;
  const Epilogue<Config> epilogue(parameters, batch);
  RowElements<typename Config::Addend, pairs, Config::unit_strides> c[rows];
  RowElements<typename Config::Bias, pairs, Config::unit_strides> bias[rows];
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int row = first_row + i * warps;
    const int left = row < parameters.m ? parameters.n - first_column : 0;
    const EpilogueRow<Config> at = epilogue.at_row(row);
    if constexpr (Config::has_c) {
      c[i].template load<whole>(at.c, parameters.c, first_column, left);
    }
    if constexpr (Config::has_bias) {
      bias[i].template load<whole>(at.bias, parameters.bias, first_column, left);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int row = first_row + i * warps;
    if (!whole && row >= parameters.m) break;
    const EpilogueRow<Config> at = epilogue.at_row(row);
#pragma unroll
    for (int j = 0; j < pairs; ++j) {
      const int column = first_column + 64 * j;
      if (!whole && column >= parameters.n) break;
      if constexpr (HasExpression<Config>) {
        at.store_pair(0.0f, 0.0f, column);
        continue;
      }
      at.put_pair(at.combine(0.0f, c[i].values[j][0], bias[i].values[j][0]),
                  at.combine(0.0f, c[i].values[j][1], bias[i].values[j][1]), column,
                  whole || column + 1 < parameters.n);
    }
  }
}

template <class Config>
__device__ __forceinline__ void copy_kernel(const GemmParameters& parameters) {
  const int tiles_m = ceil_div(parameters.m, Config::tile_m);
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const TileIndex tile = grouped_tile(blockIdx.x, tiles_m, tiles_n, parameters.batch_count, 1);
  const int first_row = tile.m * Config::tile_m, first_column = tile.n * Config::tile_n;
  const int row = first_row + threadIdx.x / 32, column = first_column + threadIdx.x % 32 * 2;

  wait_for_earlier_grids();
  launch_next_grid();
  if (first_row + Config::tile_m <= parameters.m && first_column + Config::tile_n <= parameters.n) {
    copy_tile<Config, true>(parameters, tile.batch, row, column);
  } else {
    copy_tile<Config, false>(parameters, tile.batch, row, column);
  }
}

}  // namespace tilewright
