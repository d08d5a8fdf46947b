// Rung: mma.sync, the instruction under wmma, written by hand.
//
// The fragments of mma.sync are documented (ptx/mma.cuh), and ldmatrix makes them from rows of 16
// bytes in SMEM: for each 8x8 matrix, eight lanes name a row each, and every lane gets two
// neighbors. Here a CTA is one warp, which makes a 16x8 block of out:
//
//             8 n
//          k |   |  16x8 of B: lanes 0-15 copy a row each;        ldmatrix.x2.trans
//      k     +---+
//    |    |  |   |  16x16 of A: two lanes copy a row;             ldmatrix.x4
//   16 m      16x8 of out
//
// It reuses nothing that it loads. The accumulators are fp32, or fp16 with
// `Config::fp16_accumulator`; tensor cores have had both from the start.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "layout/padding.cuh"
#include "parameters.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// A lane's accumulators of a 16x8 block: a pair in row lane / 4, and one in the row 8 below it.
template <class Input, bool in_fp16>
struct BlockSum {
  float d[4] = {};

  __device__ __forceinline__ void multiply(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_m16n8k16<Input>(d, a, b[0], b[1]);
  }
  __device__ __forceinline__ float value(int pair, int index) const { return d[pair * 2 + index]; }
};

template <>
struct BlockSum<fp16, true> {
  uint32_t d[2] = {};

  __device__ __forceinline__ void multiply(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_m16n8k16(d, a, b[0], b[1]);
  }
  __device__ __forceinline__ float value(int pair, int index) const {
    return to_float(fp16{static_cast<uint16_t>(d[pair] >> 16 * index)});
  }
};

template <class Config>
__device__ __forceinline__ void mma_warp_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  using LayoutA = PaddedRows<16, 0>;
  using LayoutB = PaddedRows<8, 0>;
  __shared__ alignas(128) Input tile_a[16 * 16];
  __shared__ alignas(128) Input tile_b[16 * 8];
  const uint32_t smem_a = shared_address(tile_a), smem_b = shared_address(tile_b);

  const int lane = threadIdx.x, tiles_n = parameters.n / 8;
  const int m = blockIdx.x / tiles_n * 16, n = blockIdx.x % tiles_n * 8;
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + n;

  BlockSum<Input, Config::fp16_accumulator> sum;
#pragma unroll 1
  for (int k = 0; k < parameters.k; k += 16) {
    const int a_row = lane / 2, a_column = lane % 2 * 8;
    copy_chunk(smem_a + LayoutA::offset(a_row, a_column), a + a_row * a_stride + k + a_column);
    if (lane < 16) copy_chunk(smem_b + LayoutB::offset(lane, 0), b + (k + lane) * b_stride);
    __syncwarp();
    uint32_t fragment_a[4], fragment_b[2];
    ldmatrix_x4<false>(fragment_a, smem_a + LayoutA::offset(lane % 16, lane / 16 * 8));
    ldmatrix_x2_transposed(fragment_b, smem_b + LayoutB::offset(lane % 16, 0));
    sum.multiply(fragment_a, fragment_b);
    __syncwarp();  // all lanes have read the tiles; the next ones may overwrite them
  }

  const Epilogue<Config> epilogue(parameters, 0);
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    epilogue.at_row(m + lane / 4 + pair * 8)
        .store_pair(sum.value(pair, 0), sum.value(pair, 1), n + lane % 4 * 2);
  }
}

}  // namespace tilewright
