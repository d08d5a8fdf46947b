// Copies of one operand's fp32 tiles through registers to SMEM, where mn is contiguous.
#pragma once
#include "mainloop/tile_cursor.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/st_shared.cuh"
#include "types.cuh"

namespace tilewright {

// Elements from one k to the next in a tile. A padding of 4 spreads a column over the banks.
template <int tile_mn>
constexpr int pitch = tile_mn + 4;

// Brings the tiles of one operand along k into SMEM: `fetch` loads one into registers, `put` stores
// it. Elements outside the matrix are never read and become zero. With `elements` = 4, neighbors
// must be contiguous and aligned in GMEM.
template <int tile_mn, int tile_k, bool k_major, int elements, int threads, bool stacked = false>
class StagedCopy {
  using Cursor = TileCursor<float, tile_mn, tile_k, k_major, elements, threads, stacked,
                            k_major && elements == 1 ? 8 : 0>;
  Cursor cursor;
  alignas(16) float staged[Cursor::passes][elements];

 public:
  // The CTA's tiles start at row or column `mn_start` of the matrix, whose size is (mn, k). The
  // compiler knows the stride of neighbors.
  __device__ __forceinline__ StagedCopy(const float* matrix, int64_t mn_stride, int64_t k_stride,
                                        int mn_start, int mn, int k, int64_t apart = 0)
      : cursor(matrix, elements == 4 && !k_major ? 1 : mn_stride,
               elements == 4 && k_major ? 1 : k_stride, mn_start, mn, k, apart) {}

  // Whether the next tile lies inside the matrix, for all threads of the CTA.
  __device__ __forceinline__ bool whole() const { return cursor.whole(); }

  // The next tile, which is whole: its passes only load.
  __device__ __forceinline__ void fetch_whole() {
    each_pass([&](int pass, const float* from) { load(staged[pass], from); });
    cursor.next_tile();
  }

  // The next tile, wherever it lies: a test for each pass, or for each element where rows end.
  __device__ __forceinline__ void fetch() {
    const int columns = cursor.columns_inside();
    if (columns % elements == 0) {
      const int rows_inside = columns > 0 ? cursor.rows_left : 0;
      each_pass([&](int pass, const float* from) {
        if (pass * Cursor::rows_per_pass < rows_inside) {
          load(staged[pass], from);
        } else {
#pragma unroll
          for (int i = 0; i < elements; ++i) staged[pass][i] = 0.0f;
        }
      });
    } else {
      each_pass([&](int pass, const float* from) {
        const int valid = cursor.valid(pass);
#pragma unroll
        for (int i = 0; i < elements; ++i) staged[pass][i] = i < valid ? from[i] : 0.0f;
      });
    }
    cursor.next_tile();
  }

  // Stores the tile to an address in SMEM. flipped: what this thread's rows are flipped by in a
  // K-major tile.
  __device__ __forceinline__ void put(uint32_t tile, int flipped) const {
    constexpr int of_element = pitch<tile_mn> * sizeof(float);
#pragma unroll
    for (int pass = 0; pass < Cursor::passes; ++pass) {
      const int row = pass * Cursor::rows_per_pass;
      if constexpr (k_major) {
        // Flips are below 16, so that they leave whole 16 rows as they are.
        const int there =
            row % 16 == 0 ? (cursor.first_row ^ flipped) + row : (cursor.first_row + row) ^ flipped;
        const uint32_t to = tile + cursor.column * of_element + there * sizeof(float);
#pragma unroll
        for (int i = 0; i < elements; ++i) store_shared(to + i * of_element, staged[pass][i]);
      } else {
        const uint32_t to =
            tile + (cursor.first_row + row) * of_element + cursor.column * sizeof(float);
        if constexpr (elements == 4) {
          store_shared(to, *reinterpret_cast<const float4*>(staged[pass]));
        } else {
          store_shared(to, staged[pass][0]);
        }
      }
    }
  }

  // Where this thread's elements of a row begin.
  __device__ __forceinline__ int column() const { return cursor.column; }

 private:
  // Calls `load_pass` with each pass of a tile and where this thread's elements of it are.
  template <class LoadPass>
  __device__ __forceinline__ void each_pass(const LoadPass& load_pass) {
    const float* source = cursor.source;
#pragma unroll
    for (int pass = 0; pass < Cursor::passes; ++pass) {
      load_pass(pass, source);
      Cursor::step(source, Cursor::rows_per_pass / Cursor::rows_per_stride * cursor.row_stride);
    }
  }

  static __device__ __forceinline__ void load(float (&to)[elements], const float* from) {
    if constexpr (elements == 4) {
      *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    } else {
      to[0] = from[0];
    }
  }
};

}  // namespace tilewright
