// 16 bytes that straddle a boundary of 16 bytes.
#pragma once
#include "types.cuh"

namespace tilewright {

// 16 of the 32 bytes of `both`, from byte number `first` (0 to 15) on. `both` is overwritten.
__device__ __forceinline__ void straddle(uint32_t (&chunk)[4], uint32_t (&both)[8], int first) {
#pragma unroll
  for (int i = 0; i < 6; ++i) both[i] = first & 8 ? both[i + 2] : both[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) both[i] = first & 4 ? both[i + 1] : both[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) chunk[i] = __funnelshift_r(both[i], both[i + 1], first % 4 * 8);
}

}  // namespace tilewright
