// Two neighbors along a row, which one lane holds.
#pragma once
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

}  // namespace tilewright
