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

// The elements of an aligned chunk from number `begin` on, and before number `end`, by loads of at
// most `bytes`; the others are zero, and never read. It does not both begin and end inside a word,
// nor does it inside a chunk. No branch ends the run of loads that these are part of.
template <int bytes, class Input>
__device__ __forceinline__ void load_chunk_between(uint32_t (&four)[4], const Input* chunk,
                                                   int begin, int end) {
  constexpr int per = per_word<Input>;
  const bool at_once = bytes == 16 && begin <= 0 && end >= wide<Input>;
#pragma unroll
  for (int j = 0; j < 4; ++j) four[j] = 0;
  if constexpr (bytes == 16) load_existing(four, chunk, at_once);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    load_existing(four[j], chunk + per * j, !at_once && begin <= per * j && end >= per * j + per);
  }
  if constexpr (per == 1) return;
  // The half of a word with which a row begins, or ends.
  const bool begins = begin > 0 && begin < 8 && begin % 2 == 1;
  const int at = begins ? begin : end - 1;
  uint16_t half = 0;
  load_existing(half, chunk + at, begin < end && (begins || (end < 8 && end % 2 == 1)));
  // Where the row ends ahead of the chunk, `at` is -1, and nothing is loaded: `half` is 0. A funnel
  // shift takes the count modulo 32; a plain one by (at & 1) * 16 spills 40 bytes, and branches
  // spill 8 to 92.
#pragma unroll
  for (int j = 0; j < 4; ++j) four[j] |= at / 2 == j ? __funnelshift_l(0u, half, at * 16) : 0;
}

// Two chunks where only so many elements exist before the first one and from it on, 16 bytes at
// least in all, or none. What the chunks have besides is zero, and never read.
template <class Input>
__device__ __forceinline__ void load_wide_between(uint32_t (&words)[8], const Input* first,
                                                  int before, int inside) {
  const int ahead = bytes_into_chunk(first) / sizeof(Input);
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const int elements = per_word<Input> * i;
    load_chunk_between<16>(*reinterpret_cast<uint32_t (*)[4]>(words + i), first - ahead + elements,
                           ahead - before - elements, ahead + inside - elements);
  }
}

// Leaves in the first four words what begins at `first`.
__device__ __forceinline__ void cut_wide(uint32_t (&words)[8], const void* first) {
  uint32_t chunk[4];
  straddle(chunk, words, bytes_into_chunk(first));
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = chunk[i];
}

// Only the first `inside` elements exist, and the others are zero.
template <int bytes, class Input>
__device__ __forceinline__ void load_wide_up_to(uint32_t (&words)[4], const Input* base,
                                                const Runs<Input, bytes>& runs, int inside) {
  if constexpr (Runs<Input, bytes>::length > 1) {
    load_chunk_between<bytes>(words, base, 0, inside);
  } else {
#pragma unroll
    for (uint32_t& word : words) word = 0;
#pragma unroll
    for (int i = 0; i < runs.count; ++i) {
      if constexpr (sizeof(Input) == 4) {
        load_existing(words[i], base + runs.offsets[i], i < inside);
      } else {
        uint16_t half = 0;
        load_existing(half, base + runs.offsets[i], i < inside);
        words[i / 2] |= half << i % 2 * 16;
      }
    }
  }
}

}  // namespace tilewright
