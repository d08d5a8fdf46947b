// Accesses of any width that memory has.
#pragma once
#include "types.cuh"

namespace tilewright {

template <int bytes>
struct Piece;
template <>
struct Piece<1> {
  using type = uint8_t;
};
template <>
struct Piece<2> {
  using type = uint16_t;
};
template <>
struct Piece<4> {
  using type = uint32_t;
};
template <>
struct Piece<8> {
  using type = uint2;
};
template <>
struct Piece<16> {
  using type = uint4;
};

// Copies so many bytes, at addresses that are multiples of them, by one load and one store.
template <int bytes>
__device__ __forceinline__ void copy_piece(void* to, const void* from) {
  using Bytes = typename Piece<bytes>::type;
  *static_cast<Bytes*>(to) = *static_cast<const Bytes*>(from);
}

}  // namespace tilewright
