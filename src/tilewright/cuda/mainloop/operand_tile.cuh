// Copies of one operand's tiles, of elements of 2 bytes or 1, to SMEM.
#pragma once
#include "layout/swizzle.cuh"
#include "mainloop/tile_cursor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Brings the tiles of one operand along k into SMEM, each in `slices` equal parts. All threads of
// the CTA take part.
//
// `copy_bytes` of 16, 8 or 4 is the width of asynchronous copies, which the strides and the
// alignment must allow. With less, elements are loaded one by one, whatever the strides, and cross
// registers in chunks of 16 bytes: `fetch` loads, `put` stores. Elements outside the matrix are
// never read and become zero.
template <class Cursor, class Input, int copy_bytes, int slices>
class TileCopy {
  static constexpr bool by_element = copy_bytes == sizeof(Input);
  static constexpr int elements = Cursor::columns / Cursor::threads_per_row;
  static constexpr int passes = Cursor::passes / slices;  // of one slice
  static_assert(passes * slices == Cursor::passes);
  using Layout = SwizzledRows<Cursor::columns, sizeof(Input)>;

  const Input* const origin;  // element (0, 0) of the matrix
  Cursor cursor;
  uint32_t staged[passes][4];  // the chunks between fetch and put, if elements are loaded singly

 public:
  // The CTA's tiles start at row or column `mn_start` of the matrix, whose size is (mn, k).
  __device__ __forceinline__ TileCopy(const Input* matrix, int64_t mn_stride, int64_t k_stride,
                                      int mn_start, int mn, int k, int64_t apart = 0)
      : origin(matrix), cursor(matrix, mn_stride, k_stride, mn_start, mn, k, apart) {}

  // Starts the next slice. Slices come in order, tile after tile, even beyond the end of k.
  __device__ __forceinline__ void fetch(int slice, uint32_t tile) {
#pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int pass = slice * passes + i;
      const int valid = cursor.valid(pass);
      if constexpr (by_element) {
        gather(staged[i], valid);
      } else {
        cp_async<copy_bytes>(tile + Layout::offset(cursor.row(pass), cursor.column),
                             valid ? cursor.source : origin, valid * int(sizeof(Input)));
      }
      cursor.advance(pass);
    }
  }

  // Stores the elements that `fetch` of the same slice has loaded singly.
  __device__ __forceinline__ void put(int slice, uint32_t tile) const {
    if constexpr (by_element) {
#pragma unroll
      for (int i = 0; i < passes; ++i) {
        store_shared(tile + Layout::offset(cursor.row(slice * passes + i), cursor.column),
                     staged[i]);
      }
    }
  }

 private:
  __device__ __forceinline__ void gather(uint32_t (&chunk)[4], int valid) const {
    const Input* element = cursor.source;
#pragma unroll
    for (int i = 0; i < elements; ++i) {
      constexpr int of_word = 4 / sizeof(Input);
      const uint32_t bits = i < valid ? element->bits : 0;
      uint32_t& word = chunk[i / of_word];
      word = i % of_word ? word | bits << i % of_word * 8 * sizeof(Input) : bits;
      cursor.to_next(element, i);
    }
  }
};

}  // namespace tilewright
