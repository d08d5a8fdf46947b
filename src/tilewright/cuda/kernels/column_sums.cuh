// The sums of columns, second half: adds the sums of groups of rows, which a product has left in a
// workspace b of (k, n), to out of (1, n).
//
// A CTA has 32 columns. Warp w adds groups w, w + 32, w + 64 ... in this order; then the sums of
// the warps are added in theirs. The order is that whatever the GPU, so a sum has the same bits
// each time.
#pragma once
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void column_sums_kernel(const GemmParameters& parameters) {
  constexpr int strands = Config::threads / 32;
  __shared__ float of_strands[strands][32];
  const int strand = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = blockIdx.x * Config::tile_n + lane;
  const bool inside = column < parameters.n;

  wait_for_earlier_grids();
  launch_next_grid();
  float sum = 0.0f;
  if (inside) {
    const float* group = static_cast<const float*>(parameters.b.pointer) + column;
#pragma unroll 8
    for (int i = strand; i < parameters.k; i += strands) {
      sum = __fadd_rn(sum, group[static_cast<int64_t>(i) * parameters.n]);
    }
  }
  of_strands[strand][lane] = sum;
  __syncthreads();
  if (strand == 0 && inside) {
#pragma unroll
    for (int i = 1; i < strands; ++i) sum = __fadd_rn(sum, of_strands[i][lane]);
    static_cast<float*>(parameters.out.pointer)[column * parameters.out.column_stride] = sum;
  }
}

}  // namespace tilewright
