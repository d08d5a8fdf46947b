// Elements along a row: two neighbors, which one lane holds, and sectors.
#pragma once
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

template <class Element>
struct Pair {
  Element first, second;
};

// The pair that starts at `element`. Only its first `inside` elements are read; the others are
// zero. at_once: both exist or none, and one access reads them.
template <bool at_once, class Element>
__device__ __forceinline__ Pair<Element> load_pair(const Element* element, int64_t stride,
                                                   int inside) {
  if constexpr (at_once) {
    typename PairWord<Element>::type word{};
    if (inside > 0) word = *reinterpret_cast<const decltype(word)*>(element);
    return __builtin_bit_cast(Pair<Element>, word);
  } else {
    Pair<Element> pair{};
    if (inside > 0) pair.first = element[0];
    if (inside > 1) pair.second = element[stride];
    return pair;
  }
}

// The same as numbers.
template <bool at_once, class Element>
__device__ __forceinline__ float2 load_numbers(const Element* element, int64_t stride, int inside) {
  const auto pair = load_pair<at_once>(element, stride, inside);
  return make_float2(to_float(pair.first), to_float(pair.second));
}

// One instruction each, rather than two for the second.
template <>
__device__ __forceinline__ float2 load_numbers<true>(const bf16* element, int64_t, int inside) {
  uint32_t word = 0;
  if (inside > 0) word = *reinterpret_cast<const uint32_t*>(element);
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000));
}

// Brings `count` elements to L2, sectors first, first + step... of them, or to L1.
template <bool to_l1 = false, class Element>
__device__ __forceinline__ void prefetch_sectors(const Element* elements, int count, int first,
                                                 int step) {
  constexpr int of_sector = 32 / sizeof(Element);
  for (int at = first * of_sector; at < count; at += step * of_sector) {
    if constexpr (to_l1) {
      prefetch_to_l1(elements + at);
    } else {
      prefetch_to_l2(elements + at);
    }
  }
}

// Brings `count` elements to L1, which the threads of a warpgroup share among them.
template <class Element>
__device__ __forceinline__ void prefetch_by_warpgroup(const Element* elements, int count) {
  prefetch_sectors<true>(elements, count, threadIdx.x % 128, 128);
}

}  // namespace tilewright
