// Stores accumulators of wmma to out through SMEM. It is not documented which lane holds which
// element, and the epilogue must know the element to which it adds c and bias.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/wmma.cuh"
#include "types.cuh"

namespace tilewright {

// A warp's 16x16 elements in rows of 96 bytes. Half a warp accesses 32 bytes of each of four rows
// together, and these lie in different banks; every row starts on 32 bytes.
struct alignas(32) WmmaStaging {
  static constexpr int stride = 24;
  float elements[16 * stride];
};

// Finishes and stores the 16x16 block at (m, n) of out. A whole warp calls it, and synchronizes
// before it stages another block.
template <class Config>
__device__ __forceinline__ void store_block(const WmmaAccumulator& accumulator,
                                            WmmaStaging& staging, const Epilogue<Config>& epilogue,
                                            int m, int n) {
  const int lane = threadIdx.x % 32;
  wmma_store(shared_address(staging.elements), accumulator, WmmaStaging::stride);
  __syncwarp();
#pragma unroll
  for (int row = lane / 4; row < 16; row += 8) {
    const EpilogueRow<Config> out = epilogue.at_row(m + row);
#pragma unroll
    for (int column = lane % 4 * 2; column < 16; column += 8) {
      const float2 pair =
          *reinterpret_cast<const float2*>(staging.elements + row * WmmaStaging::stride + column);
      out.store_pair(pair.x, pair.y, n + column);
    }
  }
}

}  // namespace tilewright
