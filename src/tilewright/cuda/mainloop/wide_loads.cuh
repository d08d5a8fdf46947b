// 16 bytes of neighboring elements, eight of 2 bytes or four of 4, which a lane loads from GMEM: to
// four registers where they are aligned or loaded by narrower loads, and to eight where they
// straddle a boundary of 16 bytes. Then these are the two aligned chunks in which they lie, and
// `cut_wide` makes four of them later, when they have arrived. (A single chunk and what a
// neighboring lane has of the other one would not save registers, since the last lane of a row
// needs two.)
#pragma once
#include "layout/straddle.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

// The elements of 16 bytes.
template <class Input>
constexpr int wide = 16 / sizeof(Input);

// Those of a register.
template <class Input>
constexpr int per_word = 4 / sizeof(Input);

template <class Input>
__device__ __forceinline__ uint32_t bits_of(const Input& element) {
  if constexpr (sizeof(Input) == 4) {
    return __float_as_uint(element);
  } else {
    return element.bits;
  }
}

// Where the elements lie: `count` runs, each of which one load of `bytes` reads.
template <class Input, int bytes>
struct Runs {
  static constexpr int length = bytes / sizeof(Input), count = wide<Input> / length;
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
__device__ __forceinline__ void load_wide(uint32_t (&words)[4], const Input* base,
                                          const Runs<Input, bytes>& runs) {
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
      const uint32_t bits = bits_of(*run);
      words[i / 2] = i % 2 ? words[i / 2] | bits << 16 : bits;
    }
  }
}

__device__ __forceinline__ int bytes_into_chunk(const void* address) {
  return reinterpret_cast<uint64_t>(address) % 16;
}

template <class Input>
__device__ __forceinline__ const Input* chunk_of(const Input* first) {
  return first - bytes_into_chunk(first) / sizeof(Input);
}

// Two chunks, whose sectors neighboring lanes have in common: L1 keeps them.
template <bool once, class Input>
__device__ __forceinline__ void load_wide(uint32_t (&words)[8], const Input* base,
                                          const Runs<Input, 16>& runs) {
  const Input* const chunk = chunk_of(base + runs.offsets[0]);
  load_global(*reinterpret_cast<uint32_t (*)[4]>(words), chunk);
  load_global(*reinterpret_cast<uint32_t (*)[4]>(words + 4), chunk + wide<Input>);
}

// The first inside(i) elements of number `i`, one by one, and zero for the others, which are never
// read. element(i, j): where its number `j` is. No load waits for another one.
template <class Input, int count, int size, class Inside, class Element>
__device__ __forceinline__ void load_elements(uint32_t (&words)[count][size], Inside inside,
                                              Element element) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    uint16_t halves[8] = {};
#pragma unroll
    for (int j = 0; j < wide<Input>; ++j) {
      const bool exists = j < inside(i);
      if constexpr (sizeof(Input) == 4) {
        words[i][j] = 0;
        load_existing(words[i][j], element(i, j), exists);
      } else {
        load_existing(halves[j], element(i, j), exists);
      }
    }
    if constexpr (sizeof(Input) == 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) words[i][j] = halves[2 * j] | halves[2 * j + 1] << 16;
    }
  }
}

// Leaves in the first four words what begins at `first`.
__device__ __forceinline__ void cut_wide(uint32_t (&words)[8], const void* first) {
  uint32_t chunk[4];
  straddle(chunk, words, bytes_into_chunk(first));
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = chunk[i];
}

// Only the first `inside` elements exist from each place on, and the others are zero. They are
// loaded one by one where a wider load would read beyond the last one.
template <int bytes, class Input, int count, class Body>
__device__ __forceinline__ void load_wide_up_to(uint32_t (&words)[count][4],
                                                const Runs<Input, bytes>& runs, int inside,
                                                Body first) {
  const auto exist = [&](int) { return inside; };
  if constexpr (Runs<Input, bytes>::length == 1) {
    load_elements<Input>(words, exist, [&](int i, int j) { return first(i) + runs.offsets[j]; });
  } else {
    constexpr int at_once = bytes == 16 ? wide<Input> : per_word<Input>;
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (uint32_t& word : words[i]) word = 0;
      if constexpr (bytes == 16) {
        load_existing(words[i], first(i), inside >= at_once);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          load_existing(words[i][j], first(i) + j * at_once, inside >= (j + 1) * at_once);
        }
      }
    }
    if (inside > 0 && inside < wide<Input> && inside % at_once > 0) {
      load_elements<Input>(words, exist, [&](int i, int j) { return first(i) + j; });
    }
  }
}

}  // namespace tilewright
