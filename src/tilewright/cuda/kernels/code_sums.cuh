// The sum of each column of B, of int8, in int32: what zero points of A are multiplied by.
//
// A warp adds a column, whose elements are neighbors: 16 bytes a lane at a time, and what is left
// of less than 16 byte by byte.
#pragma once
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void code_sums_kernel(const GemmParameters& parameters) {
  constexpr int one = 0x01010101;  // four times
  const int groups = ceil_div(parameters.n, Config::tile_n), batch = blockIdx.x / groups;
  const int column = blockIdx.x % groups * Config::tile_n + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, chunks = parameters.k / 16;
  const MatrixParameters &b = parameters.b, &out = parameters.out;

  wait_for_earlier_grids();
  launch_next_grid();
  if (column >= parameters.n) return;
  const int8_t* codes = static_cast<const int8_t*>(b.pointer) + batch_offset(parameters, b, batch) +
                        column * b.column_stride;
  const auto* words = reinterpret_cast<const uint4*>(codes);
  int32_t sum = 0;
#pragma unroll 8
  for (int i = lane; i < chunks; i += 32) {
    const uint4 chunk = words[i];
    sum = __dp4a(static_cast<int>(chunk.x), one, sum);
    sum = __dp4a(static_cast<int>(chunk.y), one, sum);
    sum = __dp4a(static_cast<int>(chunk.z), one, sum);
    sum = __dp4a(static_cast<int>(chunk.w), one, sum);
  }
  if (const int last = chunks * 16 + lane; last < parameters.k) sum += codes[last];
  sum = __reduce_add_sync(0xFFFFFFFF, sum);
  if (lane == 0) {
    static_cast<int32_t*>(out.pointer)[batch_offset(parameters, out, batch) + column] = sum;
  }
}

}  // namespace tilewright
