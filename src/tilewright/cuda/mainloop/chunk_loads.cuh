// Chunks of 16 bytes of elements, by loads as wide as memory allows.
#pragma once
#include "layout/piece.cuh"
#include "ptx/global_memory.cuh"
#include "types.cuh"

namespace tilewright {

// bytes: of one load. Neighbors are `stride` apart, which is 1 if a load has several.
template <class Input, int bytes>
struct ChunkLoads {
  static constexpr int in_chunk = 16 / sizeof(Input);

  static __device__ __forceinline__ void load(uint32_t (&words)[4], const Input* chunk,
                                              int64_t stride) {
    constexpr int length = bytes / sizeof(Input);  // elements of a load
    if constexpr (bytes == 16) {
      load_global(words, chunk);
    } else if constexpr (sizeof(Input) == 2 && length == 1) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t low = chunk[2 * j * stride].bits, high = chunk[(2 * j + 1) * stride].bits;
        words[j] = low | high << 16;
      }
    } else {
#pragma unroll
      for (int j = 0; j < in_chunk; j += length) {
        copy_piece<bytes>(&words[j * sizeof(Input) / 4], chunk + j * stride);
      }
    }
  }

  // The first `inside` elements; the words are zero before.
  static __device__ __forceinline__ void load_part(uint32_t (&words)[4], const Input* chunk,
                                                   int64_t stride, int inside) {
#pragma unroll
    for (int j = 0; j < in_chunk; ++j) {
      if (j >= inside) break;
      if constexpr (sizeof(Input) == 4) {
        words[j] = __float_as_uint(chunk[j * stride]);
      } else {
        words[j / 2] |= static_cast<uint32_t>(chunk[j * stride].bits) << j % 2 * 16;
      }
    }
  }
};

}  // namespace tilewright
