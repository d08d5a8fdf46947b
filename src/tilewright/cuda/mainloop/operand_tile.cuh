// Copies of one operand's tiles, of elements of 2 bytes or 1, to SMEM.
#pragma once
#include "layout/swizzle.cuh"
#include "mainloop/tile_cursor.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Brings the tiles of one operand along k into SMEM, each in `steps` equal parts. All threads of
// the CTA take part.
//
// `copy_bytes` of 16, 8 or 4 is the width of asynchronous copies, which the strides and the
// alignment must allow. With less, elements are loaded one by one, whatever the strides, and cross
// registers: the first `fetch` of a tile loads all of them, and the last `put` stores them in
// chunks of 16 bytes. Elements outside the matrix are never read and become zero.
template <class Cursor, class Input, int copy_bytes, int steps>
class TileCopy {
  static constexpr bool by_element = copy_bytes == sizeof(Input);
  static constexpr int elements = Cursor::columns / Cursor::threads_per_row;
  static constexpr int passes = Cursor::passes / steps;  // of one step
  static_assert(passes * steps == Cursor::passes);
  using Layout = SwizzledRows<Cursor::columns, sizeof(Input)>;

  const Input* const origin;  // element (0, 0) of the matrix
  Cursor cursor;
  const uint32_t first;  // where this thread's first chunk lies in a tile
  // The bits of single elements between fetch and put.
  uint32_t staged[by_element ? Cursor::passes : 1][elements];

 public:
  // The CTA's tiles start at row or column `mn_start` of the matrix, whose size is (mn, k).
  __device__ __forceinline__ TileCopy(const Input* matrix, int64_t mn_stride, int64_t k_stride,
                                      int mn_start, int mn, int k, int64_t apart = 0)
      : origin(matrix),
        cursor(matrix, mn_stride, k_stride, mn_start, mn, k, apart),
        first(Layout::offset(cursor.first_row, cursor.column)) {}

  // Starts part `step` of the next tile. Parts come in order, tile after tile.
  __device__ __forceinline__ void fetch(int step, uint32_t tile) {
    if constexpr (by_element) {
      if (step > 0) return;
#pragma unroll
      for (int pass = 0; pass < Cursor::passes; ++pass) {
        gather(staged[pass], cursor.valid(pass));
        cursor.advance(pass);
      }
    } else {
      const int columns = cursor.columns_inside();
      // Narrow copies are many, and most of them are whole or empty: these need few instructions.
      if constexpr (copy_bytes < 16) {
        if (columns % elements == 0) {
          return each_pass(step, columns, [&](int pass, bool inside) {
            cp_async_or_zeros<copy_bytes>(tile + offset(pass), cursor.source, !inside);
          });
        }
      }
      each_pass(step, columns, [&](int pass, bool inside) {
        cp_async<copy_bytes>(tile + offset(pass), inside ? cursor.source : origin,
                             inside ? columns * int(sizeof(Input)) : 0);
      });
    }
  }

  // Behind the last step, stores the elements that were loaded singly.
  __device__ __forceinline__ void put(int step, uint32_t tile) const {
    if constexpr (by_element) {
      if (step + 1 < steps) return;
#pragma unroll
      for (int pass = 0; pass < Cursor::passes; ++pass) {
        uint32_t chunk[4];
        pack(chunk, staged[pass]);
        store_shared(tile + offset(pass), chunk);
      }
    }
  }

 private:
  // Calls `copy` with each pass of a step, and with whether any of its `columns` lie inside.
  template <class Copy>
  __device__ __forceinline__ void each_pass(int step, int columns, const Copy& copy) {
    const int rows_inside = columns > 0 ? cursor.rows_left : 0;
#pragma unroll
    for (int pass = step * passes; pass < (step + 1) * passes; ++pass) {
      copy(pass, pass * Cursor::rows_per_pass < rows_inside);
      cursor.advance(pass);
    }
  }

  // Where this thread's chunk of a pass lies in a tile.
  __device__ __forceinline__ uint32_t offset(int pass) const {
    if constexpr (Cursor::rows_per_pass % Layout::period == 0) {
      return first + pass * (Cursor::rows_per_pass * Cursor::columns * int(sizeof(Input)));
    } else {
      return Layout::offset(cursor.row(pass), cursor.column);
    }
  }

  // Loads a chunk's elements, which need not be aligned for wider loads. They stay apart until they
  // are stored: to join them would be to wait for them.
  __device__ __forceinline__ void gather(uint32_t (&bits)[elements], int valid) const {
    const Input* element = cursor.source;
    if (cursor.adjacent() && valid == elements) {  // all from one address
#pragma unroll
      for (int i = 0; i < elements; ++i) bits[i] = element[i].bits;
    } else {
#pragma unroll
      for (int i = 0; i < elements; ++i) {
        bits[i] = i < valid ? element->bits : 0;
        cursor.to_next(element, i);
      }
    }
  }

  static __device__ __forceinline__ void pack(uint32_t (&chunk)[4],
                                              const uint32_t (&bits)[elements]) {
    constexpr int of_word = 4 / sizeof(Input);
#pragma unroll
    for (int i = 0; i < elements; ++i) {
      uint32_t& word = chunk[i / of_word];
      word = i % of_word ? word | bits[i] << i % of_word * 8 * sizeof(Input) : bits[i];
    }
  }
};

}  // namespace tilewright
