// An operand of a tile, read where TMA cannot address it: rows of memory that begin at any element.
//
// A row of a tile is 64 elements of a row of memory, 128 bytes. Threads copy the chunks of 16 bytes
// in which it lies, as memory is cut into them: eight to the row's place in the slot and a ninth
// beside the slot, to `row_ends`. When they have arrived, the row is shifted to its place:
//
//   memory   | . . . 0 1 2 3 4 | 5 6 7 8 9 ...    |  ... 62 63 . . .     skew: 3 elements
//   slot     | 0 1 2 3 4 5 6 7 | 8 9 10 11 ...    |
//
// What lies outside of the operand becomes zero, and what lies before it is shifted out.
#pragma once
#include "layout/straddle.cuh"
#include "layout/swizzle.cuh"
#include "parameters.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Operand: a WgmmaOperand, whose rows `warps` warps share by atoms of eight.
template <class Operand, class Element, int warps>
class RowSource {
  static constexpr int atom_rows = 8, atoms = Operand::bytes / Operand::atom_bytes;
  static constexpr int chunk_bytes = 16, row_elements = 64;
  static_assert(sizeof(Element) * row_elements == Operand::row_bytes);
  using Layout = SwizzledRows<row_elements>;

  const GemmParameters& parameters;
  const MatrixParameters& matrix;
  int64_t pitch;     // bytes from one row of memory to the next
  int rows, length;  // how many there are, and the elements of each
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % warps;

 public:
  static constexpr int tile_rows = atoms * atom_rows;

  // Where a tile begins: its first element along m or n, and element (0, 0) of its batch.
  struct Place {
    int mn;
    const uint8_t* first;
  };

  __device__ __forceinline__ RowSource(const GemmParameters& p, const MatrixParameters& operand,
                                       int64_t mn_stride, int64_t k_stride, int mn)
      : parameters(p),
        matrix(operand),
        pitch((Operand::mn_major ? k_stride : mn_stride) * sizeof(Element)),
        rows(Operand::mn_major ? p.k : mn),
        length(Operand::mn_major ? mn : p.k) {}

  __device__ __forceinline__ Place place(int mn, int batch) const {
    const auto* first = static_cast<const Element*>(matrix.pointer);
    return {mn, reinterpret_cast<const uint8_t*>(first + batch_offset(parameters, matrix, batch))};
  }

  // Starts the copies of the chunks of 64 of k from `k` on, to a slot and to its row_ends.
  __device__ __forceinline__ void load(uint32_t slot, uint32_t row_ends, const Place& at,
                                       int k) const {
#pragma unroll 1
    for (int atom = warp; atom < atoms; atom += warps) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = half * 4 + lane / 8, chunk = lane % 8;
        copy(slot + atom * Operand::atom_bytes + Layout::offset(row, chunk * 8),
             row_of(at, atom, row, k), chunk);
      }
      if (lane < atom_rows) {
        copy(row_ends + (atom * atom_rows + lane) * chunk_bytes, row_of(at, atom, lane, k), 8);
      }
    }
  }

  // Shifts the rows that have arrived; the warp has met since.
  __device__ __forceinline__ void shift(uint32_t slot, uint32_t row_ends, const Place& at,
                                        int k) const {
    // A lane has two chunks of a row.
    const int row = lane % atom_rows, column = lane / atom_rows * 16;
    const bool last = column + 16 == row_elements;
#pragma unroll 2
    for (int atom = warp; atom < atoms; atom += warps) {
      const uint32_t rows_at = slot + atom * Operand::atom_bytes;
      const uint32_t first = rows_at + Layout::offset(row, column);
      const uint32_t second = rows_at + Layout::offset(row, column + 8);
      const uint32_t third = last ? row_ends + (atom * atom_rows + row) * chunk_bytes
                                  : rows_at + Layout::offset(row, column + 16);
      uint32_t chunks[3][4];
      load_shared(chunks[0], first);
      load_shared(chunks[1], second);
      load_shared(chunks[2], third);
      __syncwarp();  // all have read what is overwritten now
      const int skew = row_of(at, atom, row, k).skew;
      store_shifted(first, chunks[0], chunks[1], skew);
      store_shifted(second, chunks[1], chunks[2], skew);
    }
  }

 private:
  // A row of the tile in memory: the chunk in which it begins, the bytes of this chunk that lie
  // before it, and all bytes up to its end, 0 if the row lies outside.
  struct Row {
    const uint8_t* start;
    int skew, bytes;
  };

  __device__ __forceinline__ Row row_of(const Place& at, int atom, int row_in_atom, int k) const {
    int row = atom * atom_rows + row_in_atom, from = k;
    if constexpr (Operand::mn_major) {
      from = at.mn + row / Operand::tile_k * Operand::panel_rows;
      row = k + row % Operand::tile_k;
    } else {
      row += at.mn;
    }
    const uint8_t* start = at.first + row * pitch;
    const int skew = reinterpret_cast<uint64_t>(start) % chunk_bytes;
    const int inside = minimum(length - from, row_elements);
    const bool exists = row < rows && inside > 0;
    return {start - skew + from * static_cast<int64_t>(sizeof(Element)), skew,
            exists ? inside * static_cast<int>(sizeof(Element)) + skew : 0};
  }

  // Copies a chunk of a row as far as the row goes.
  __device__ __forceinline__ void copy(uint32_t to, const Row& row, int chunk) const {
    const int bytes = minimum(maximum(row.bytes - chunk * chunk_bytes, 0), chunk_bytes);
    const uint8_t* from = row.start + chunk * chunk_bytes;
    const auto* aligned = static_cast<const uint8_t*>(matrix.pointer);
    aligned -= reinterpret_cast<uint64_t>(aligned) % chunk_bytes;
    cp_async<chunk_bytes>(to, bytes > 0 ? from : aligned, bytes);
  }

  static __device__ __forceinline__ void store_shifted(uint32_t to, const uint32_t (&low)[4],
                                                       const uint32_t (&high)[4], int skew) {
    uint32_t both[8], chunk[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      both[i] = low[i];
      both[i + 4] = high[i];
    }
    straddle(chunk, both, skew);
    store_shared(to, chunk);
  }
};

}  // namespace tilewright
