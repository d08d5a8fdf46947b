// A fragment of A as the sum of two fragments that mma.sp takes.
#pragma once
#include "types.cuh"

namespace tilewright {

// A fragment of A, (16, 32), as two that keep half of it each: the first two non-zeros of each
// group of four, and the rest. Matrix i has rows i % 2 * 8 to + 7 and groups i / 2 * 4 to + 3.
struct SplitFragment {
  uint32_t kept[2][4];
  uint32_t places[2][4];  // of the lane's four groups

  // Splits group i, elements 0 to 3 from the lowest bits on.
  __device__ __forceinline__ void split(int i, uint32_t low, uint32_t high) {
    const bool x0 = low & 0x7fff, x1 = low & 0x7fff0000, x2 = high & 0x7fff;
    const uint32_t first = x0 ? 0 : x1 ? 1 : 2;
    const uint32_t second = x0 && x1 ? 1 : (x0 || x1) && x2 ? 2 : 3;
    // The other two, in order: pairs 01 and 23 are each other's rest, 02 and 13, 03 and 12.
    const uint32_t other = (first ^ second) == 1 ? 2 : 1;
    keep(0, i, low, high, first, second);
    keep(1, i, low, high, first ^ other, second ^ other);
  }

  // What lanes 0 and 1 of each four give to mma.sp.
  __device__ __forceinline__ uint32_t metadata(int part) const {
    const uint32_t lane = threadIdx.x % 4, (&p)[4] = places[part];
    const uint32_t words[] = {p[0] << lane * 4 | p[1] << (lane * 4 + 16),
                              p[2] << lane * 4 | p[3] << (lane * 4 + 16)};
    uint32_t mine = words[lane % 2];
    mine |= __shfl_xor_sync(~0u, words[1 - lane % 2], 1);
    return mine | __shfl_xor_sync(~0u, mine, 2);
  }

  __device__ __forceinline__ bool has_rest() const {
    return (kept[1][0] | kept[1][1] | kept[1][2] | kept[1][3]) & 0x7fff7fff;  // -0 is zero
  }

 private:
  __device__ __forceinline__ void keep(int part, int i, uint32_t low, uint32_t high, uint32_t first,
                                       uint32_t second) {
    kept[part][i] = __byte_perm(low, high, 0x1010 + first * 0x0022 + second * 0x2200);
    places[part][i] = first | second << 2;
  }
};

}  // namespace tilewright
