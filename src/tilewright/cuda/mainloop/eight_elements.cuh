// Eight elements of 2 bytes in four registers, which a lane loads from GMEM.
#pragma once
#include "ptx/global_memory.cuh"
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

// Where the elements lie: `count` runs, each of which one load of `bytes` reads.
template <int bytes>
struct Runs {
  static constexpr int length = bytes / 2, count = 8 / length;
  int64_t offsets[count];  // in elements

  Runs() = default;

  // Neighbors are `stride` apart, and next to each other if a run has several.
  __device__ __forceinline__ explicit Runs(int64_t stride) {
#pragma unroll
    for (int i = 0; i < count; ++i) offsets[i] = i * length * (length > 1 ? 1 : stride);
  }

  // The same of a row of n elements from `column` on. Runs past its end, which is the end of a run,
  // become its last one: something is read, and nobody uses it.
  __device__ __forceinline__ Runs(int64_t stride, int column, int n) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int first = minimum(column + i * length, n - length);
      offsets[i] = length > 1 ? first : first * stride;
    }
  }
};

// once: nobody else reads them, nor does anybody write them while the kernel runs.
template <bool once, int bytes, class Input>
__device__ __forceinline__ void load_eight(uint32_t (&words)[4], const Input* base,
                                           const Runs<bytes>& runs) {
#pragma unroll
  for (int i = 0; i < runs.count; ++i) {
    const Input* const run = base + runs.offsets[i];
    if constexpr (bytes == 16) {
      if constexpr (once) {
        load_once(words, run);
      } else {
        load_global(words, run);
      }
    } else if constexpr (bytes == 8) {
      const uint2 pair = *reinterpret_cast<const uint2*>(run);
      words[2 * i] = pair.x;
      words[2 * i + 1] = pair.y;
    } else if constexpr (bytes == 4) {
      words[i] = *reinterpret_cast<const uint32_t*>(run);
    } else {
      const uint32_t bits = run->bits;
      words[i / 2] = i % 2 ? words[i / 2] | bits << 16 : bits;
    }
  }
}

// Only the first `inside` elements exist, `stride` apart, and the others are zero. One by one where
// that matters, and not unrolled: this is for the end of a row, and must not take registers.
template <bool once, int bytes, class Input>
__device__ __forceinline__ void load_up_to_eight(uint32_t (&words)[4], const Input* base,
                                                 const Runs<bytes>& runs, int64_t stride,
                                                 int inside) {
  words[0] = words[1] = words[2] = words[3] = 0;
  if (inside >= 8) {
    load_eight<once>(words, base, runs);
    return;
  }
#pragma unroll 1
  for (int i = inside - 1; i >= 0; --i) {
#pragma unroll
    for (int word = 3; word > 0; --word) {
      words[word] = __funnelshift_l(words[word - 1], words[word], 16);
    }
    words[0] = words[0] << 16 | base[i * stride].bits;
  }
}

}  // namespace tilewright
