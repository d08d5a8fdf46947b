// Where a warp of mma.sync writes the rows of its block of out: to GMEM, or first to SMEM.
#pragma once
#include "epilogue/epilogue.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// The rows as they are in GMEM.
template <class Config>
class OutRows {
  const Epilogue<Config>& epilogue;

 public:
  static constexpr int together = 8;  // rows that are finished before any is written

  // The block starts at (m, n) of out.
  __device__ __forceinline__ OutRows(const Epilogue<Config>& of_out, int m, int n, unsigned char*)
      : epilogue(of_out) {}

  __device__ __forceinline__ EpilogueRow<Config> at(int row) const { return epilogue.at_row(row); }

  static __device__ __forceinline__ void flush(int rows_finished) {}
};

// Config::staged_rows of them at a time pass through a buffer of the warp, so that neighboring
// lanes write neighbors to GMEM: an access then touches one row, or up to four of narrow blocks,
// where accumulators are in eight.
template <StagesRows Config>
class OutRows<Config> {
  using Output = typename Config::Output;
  static constexpr int rows = Config::staged_rows,
                       columns = Config::warp_n / sums_per_column<Config>;
  static constexpr int pitch = columns + 16 / sizeof(Output);  // rows begin in different banks
  static constexpr int bytes = rows * pitch * sizeof(Output);
  static_assert(Config::warp_m % rows == 0 && Config::threads / 32 * bytes <= Config::smem_bytes);
  static_assert(Config::store_elements == 1);  // else lanes write neighbors at once

  const Epilogue<Config>& epilogue;
  const int first_row, first_column;
  Output* const buffer;

  // Writes the buffer to GMEM from `out` on, along lines: rows of out, or columns. Neighboring
  // lanes take neighbors of a line, `across` of them. In the buffer, neighbors lie buffer_neighbor
  // and lines buffer_line elements apart; in GMEM, out_neighbor and out_line.
  template <int lines, int of_line, int buffer_neighbor, int buffer_line>
  __device__ __forceinline__ void write(Output* out, int64_t out_neighbor, int64_t out_line,
                                        int neighbors_inside, int lines_inside) const {
    constexpr int across = of_line % 32 == 0 ? 32 : of_line % 16 == 0 ? 16 : 8;
    constexpr int apart = 32 / across;  // lines from one access of a lane to the next
    constexpr int at_once = lines / apart % 8 == 0 ? 8 : 4;
    static_assert(lines % (apart * at_once) == 0);
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int i = lane % across; i < of_line; i += across) {
      const Output* from = buffer + i * buffer_neighbor + lane / across * buffer_line;
      Output* to = out + i * out_neighbor + lane / across * out_line;
      int left = i < neighbors_inside ? lines_inside - lane / across : 0;
#pragma unroll 1
      for (int accesses = lines / apart; accesses > 0; accesses -= at_once) {
        Output held[at_once];
#pragma unroll
        for (int j = 0; j < at_once; ++j) held[j] = from[j * apart * buffer_line];
#pragma unroll
        for (int j = 0; j < at_once; ++j) {
          if (j * apart < left) *to = held[j];
          to += apart * out_line;
        }
        from += at_once * apart * buffer_line;
        left -= at_once * apart;
      }
    }
  }

 public:
  static constexpr int together = rows;

  // `smem`: that of the CTA, which nothing else uses anymore.
  __device__ __forceinline__ OutRows(const Epilogue<Config>& of_out, int m, int n,
                                     unsigned char* smem)
      : epilogue(of_out),
        first_row(m),
        first_column(n),
        buffer(reinterpret_cast<Output*>(smem + threadIdx.x / 32 * bytes)) {}

  __device__ __forceinline__ EpilogueRow<Config> at(int row) const {
    EpilogueRow<Config> result = epilogue.at_row(row);
    result.out = buffer + (row - first_row) % rows * pitch - first_column;
    return result;
  }

  // Writes the buffer if it is full: the lanes have finished so many rows of the block.
  __device__ __forceinline__ void flush(int rows_finished) const {
    if (rows_finished % rows != 0) return;
    const MatrixParameters& out = epilogue.parameters.out;
    const int row = first_row + rows_finished - rows;
    const int rows_inside = epilogue.parameters.m - row;
    const int columns_inside = epilogue.parameters.n / sums_per_column<Config> - first_column;
    Output* const to = epilogue.out + row * out.row_stride + first_column * out.column_stride;
    __syncwarp();
    if (out.row_stride == 1) {
      write<columns, rows, pitch, 1>(to, 1, out.column_stride, rows_inside, columns_inside);
    } else {
      write<rows, columns, 1, pitch>(to, out.column_stride, out.row_stride, columns_inside,
                                     rows_inside);
    }
    __syncwarp();  // the buffer is free
  }
};

}  // namespace tilewright
