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

// The elements of an aligned chunk that exist: from number `begin` on, and before number `end`.
// They do not both begin and end inside a word, nor inside a chunk.
template <class Input>
struct Existing {
  const Input* chunk;
  int begin, end;

  __device__ __forceinline__ bool has(int first, int last) const {
    return begin <= first && end >= last;
  }
  __device__ __forceinline__ bool begins_inside_a_word() const {
    return begin > 0 && begin < 8 && begin % 2 == 1;
  }
  // The element of half a word with which they begin, or end; -1 if they end ahead of the chunk.
  __device__ __forceinline__ int half() const { return begins_inside_a_word() ? begin : end - 1; }
  __device__ __forceinline__ bool has_half() const {
    return begin < end && (begins_inside_a_word() || (end < 8 && end % 2 == 1));
  }
};

// What exists of chunks number `begin` to `end` - 1, by loads of at most `bytes`; the rest of these
// is zero, and never read. existing(i): of chunk number i. No branch ends the run of loads that
// these are part of.
template <int bytes, int begin, int end, class Input, int chunks, class Body>
__device__ __forceinline__ void load_existing_of(uint32_t (&words)[chunks][4], Body existing) {
  constexpr int per = per_word<Input>;
  const auto at_once = [](const Existing<Input>& some) {
    return bytes == 16 && some.has(0, wide<Input>);
  };
#pragma unroll
  for (int i = begin; i < end; ++i) {
    const Existing<Input> some = existing(i);
#pragma unroll
    for (uint32_t& word : words[i]) word = 0;
    if constexpr (bytes == 16) load_existing(words[i], some.chunk, at_once(some));
  }
#pragma unroll
  for (int i = begin; i < end; ++i) {
    const Existing<Input> some = existing(i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      load_existing(words[i][j], some.chunk + per * j,
                    !at_once(some) && some.has(per * j, per * j + per));
    }
  }
  if constexpr (per > 1) {
    uint16_t halves[end - begin];
#pragma unroll
    for (int i = begin; i < end; ++i) {
      const Existing<Input> some = existing(i);
      halves[i - begin] = 0;
      load_existing(halves[i - begin], some.chunk + some.half(), some.has_half());
    }
    // Of -1 nothing was loaded, and the half is 0. A funnel shift takes the count modulo 32.
#pragma unroll
    for (int i = begin; i < end; ++i) {
      const int at = existing(i).half();
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        words[i][j] |= at / 2 == j ? __funnelshift_l(0u, halves[i - begin], at * 16) : 0;
      }
    }
  }
}

// The same of all chunks. A narrow load waits for a wider one of the same register, so the widest
// ones of several chunks come first: one chunk after the other, a step of 8 rows took 6.4 us. More
// of them at once find no registers.
template <int bytes, class Input, int chunks, class Body, int begin = 0>
__device__ __forceinline__ void load_all_existing(uint32_t (&words)[chunks][4], Body existing) {
  constexpr int end = minimum(begin + 6, chunks);
  load_existing_of<bytes, begin, end, Input>(words, existing);
  if constexpr (end < chunks) load_all_existing<bytes, Input, chunks, Body, end>(words, existing);
}

// The two chunks of 16 bytes where only so many elements exist before the first one and from it on,
// 16 bytes at least in all, or none. place(i): where number `i` begins, and these two numbers.
template <class Input>
struct Place {
  const Input* first;
  int before, inside;
};

template <class Input, int count, class Body>
__device__ __forceinline__ void load_wide_between(uint32_t (&words)[count][8], Body place) {
  using Chunks = uint32_t[2 * count][4];
  load_all_existing<16, Input>(reinterpret_cast<Chunks&>(words), [&](int number) {
    const Place<Input> at = place(number / 2);
    const int ahead = bytes_into_chunk(at.first) / sizeof(Input);
    const int skipped = number % 2 * wide<Input> - ahead;  // from the first one to the chunk
    return Existing<Input>{at.first + skipped, -at.before - skipped, at.inside - skipped};
  });
}

// Leaves in the first four words what begins at `first`.
__device__ __forceinline__ void cut_wide(uint32_t (&words)[8], const void* first) {
  uint32_t chunk[4];
  straddle(chunk, words, bytes_into_chunk(first));
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = chunk[i];
}

// Only the first `inside` elements exist from each place on, and the others are zero.
template <int bytes, class Input, int count, class Body>
__device__ __forceinline__ void load_wide_up_to(uint32_t (&words)[count][4],
                                                const Runs<Input, bytes>& runs, int inside,
                                                Body first) {
  if constexpr (Runs<Input, bytes>::length > 1) {
    load_all_existing<bytes, Input>(words,
                                    [&](int i) { return Existing<Input>{first(i), 0, inside}; });
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (uint32_t& word : words[i]) word = 0;
#pragma unroll
      for (int j = 0; j < runs.count; ++j) {
        const Input* const run = first(i) + runs.offsets[j];
        if constexpr (sizeof(Input) == 4) {
          load_existing(words[i][j], run, j < inside);
        } else {
          uint16_t half = 0;
          load_existing(half, run, j < inside);
          words[i][j / 2] |= half << j % 2 * 16;
        }
      }
    }
  }
}

}  // namespace tilewright
