// How four lanes that share a row of a wgmma's sums put it into GMEM 16 bytes at a time.
#pragma once
#include "types.cuh"

namespace tilewright {

// Four lanes hold a row's pairs of four blocks. They exchange them, and then each has one block
// of 16 bytes: words[b] of the lane at place l becomes words[l] of the lane at place b.
// `partners`: the lanes at the places l ^ 1 and l ^ 2.
__device__ __forceinline__ void transpose_quad(uint32_t (&words)[4], int place,
                                               const int (&partners)[2]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = place & bit;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      if (b & bit) continue;
      const uint32_t received =
          __shfl_sync(0xFFFFFFFF, upper ? words[b] : words[b + bit], partners[bit / 2]);
      (upper ? words[b] : words[b + bit]) = received;
    }
  }
}

// Elements `begin` to `end` of a 16-byte chunk of a row of out, in the widest pieces that divide
// 16 bytes: each of them is a request to L2.
template <class Output>
__device__ __forceinline__ void store_part(Output* chunk, const uint32_t (&words)[4], int begin,
                                           int end) {
  const auto covers = [&](int first, int count) { return begin <= first && first + count <= end; };
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto bits = static_cast<uint16_t>(words[i / 2] >> i % 2 * 16);
    if (covers(i & ~3, 4)) {
      if (i % 4 == 0) {
        *reinterpret_cast<uint2*>(chunk + i) = make_uint2(words[i / 2], words[i / 2 + 1]);
      }
    } else if (covers(i & ~1, 2)) {
      if (i % 2 == 0) *reinterpret_cast<uint32_t*>(chunk + i) = words[i / 2];
    } else if (covers(i, 1)) {
      chunk[i] = __builtin_bit_cast(Output, bits);
    }
  }
}

}  // namespace tilewright
