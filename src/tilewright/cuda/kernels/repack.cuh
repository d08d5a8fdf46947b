// Copies A, B or both to where their rows begin on lines of L2, so that TMA can read them.
//
// c is where A goes, and bias where B goes. A matrix is copied in the order in which it is stored:
// its rows are those of memory. A CTA copies a block of rows by columns; a warp takes every
// warps-th row of the block, and a lane a chunk of 16 bytes of each. It reads those of all its rows
// before it writes one, since memory is kept busy by what is in flight.
//
// A row may begin at any element. Then a chunk of the copy is cut from the two aligned ones that it
// straddles:
//
//   aligned   |..ab|cdef|ghij|k...|    ends: abcd, ijk
//   copy        |abcd|efgh|ijk.|       whole: efgh, from cdef and ghij
//
// What lies outside of a row is never read. So chunks at its ends are copied element by element,
// one or two a lane, and not chunk by chunk, whose elements would be waited for one after the
// other. Zeros fill up the last chunk.
//
// An operand of 1-byte elements may be turned: neighbors in its copy are neighbors along the other
// dimension. Then a CTA copies a tile of 128 x 128 through SMEM.
#pragma once
#include "epilogue/code_tile.cuh"
#include "layout/straddle.cuh"
#include "parameters.cuh"
#include "ptx/global_memory.cuh"
#include "ptx/grid_dependency.cuh"
#include "types.cuh"

namespace tilewright {

// One operand as it lies in memory, with its copy.
struct Repacking {
  const MatrixParameters &from, &to;
  int64_t from_row, from_column, to_row;  // strides
  int rows, columns;
};

// A lane's part of a row whose elements are neighbors in memory.
template <class Element>
class ShiftedPart {
  static constexpr int in_chunk = 16 / sizeof(Element), least_columns = 3 * in_chunk;
  static constexpr int turns = ceil_div(least_columns, 32);  // of a warp, at the ends of a row

  uint32_t both[8];
  Element ends[turns];
  int ahead;  // how many elements the row begins behind a multiple of 16 bytes

  // The chunks of the copy that are cut from chunks inside the row: `whole` of them behind `head`.
  __device__ __forceinline__ int head() const { return ahead > 0; }
  __device__ __forceinline__ int whole(int columns) const {
    const int inside = static_cast<uint32_t>(columns + ahead) / in_chunk;
    return columns < least_columns ? 0 : inside - 2 * head();
  }

  // The element of the ends, or of a short row, that a lane copies in its turn.
  __device__ __forceinline__ int end_of(int columns, int turn) const {
    const int end = turn * 32 + threadIdx.x % 32;
    return end < head() * in_chunk ? end : end + whole(columns) * in_chunk;
  }

 public:
  // `chunk`: of the copy; in place of one at the ends, the nearest whole one is read. `with_ends`:
  // whether the warp copies the ends too.
  __device__ __forceinline__ void load(const Element* row, int64_t, int columns, int chunk,
                                       bool with_ends) {
    ahead = reinterpret_cast<uint64_t>(row) % 16 / sizeof(Element);
    if (columns >= least_columns) {
      const int inside = min(max(chunk, head()), head() + whole(columns) - 1);
      const Element* source = row + (inside * in_chunk - ahead);
      load_global(*reinterpret_cast<uint32_t (*)[4]>(both), source);
      load_global(*reinterpret_cast<uint32_t (*)[4]>(both + 4), source + head() * in_chunk);
    }
    if (with_ends) {
#pragma unroll
      for (int i = 0; i < turns; ++i) ends[i] = row[min(end_of(columns, i), columns - 1)];
    }
  }

  __device__ __forceinline__ void store(Element* copy, int columns, int chunk, bool with_ends) {
    if (static_cast<uint32_t>(chunk - head()) < static_cast<uint32_t>(whole(columns))) {
      uint32_t words[4];
      straddle(words, both, ahead * static_cast<int>(sizeof(Element)));
      store_global(copy + chunk * in_chunk, words);
    }
#pragma unroll
    for (int i = 0; i < turns; ++i) {
      const int element = end_of(columns, i);
      if (with_ends && element < ceil_div(columns, in_chunk) * in_chunk) {
        copy[element] = element < columns ? ends[i] : Element{};
      }
    }
  }
};

// A lane's chunk of a row whose elements lie apart.
template <class Element>
class GatheredPart {
  static constexpr int in_chunk = 16 / sizeof(Element);

  struct Words {
    uint32_t words[4];
  };
  struct Elements {
    Element values[in_chunk];
  } elements;

 public:
  __device__ __forceinline__ void load(const Element* row, int64_t stride, int columns, int chunk,
                                       bool) {
    elements = Elements{};
#pragma unroll
    for (int i = 0; i < in_chunk; ++i) {
      const int column = chunk * in_chunk + i;
      if (column < columns) elements.values[i] = row[column * stride];
    }
  }

  __device__ __forceinline__ void store(Element* copy, int columns, int chunk, bool) {
    if (chunk * in_chunk < columns) {
      store_global(copy + chunk * in_chunk, __builtin_bit_cast(Words, elements).words);
    }
  }
};

template <class Element, bool unit_strides>
struct PartOf {
  using type = ShiftedPart<Element>;
};

template <class Element>
struct PartOf<Element, false> {
  using type = GatheredPart<Element>;
};

// Config names: Input; threads; thread_rows: rows of a lane; batched; for each of a and b: copies,
// transposed (whether its columns are the rows of memory), unit_strides (whether neighbors are
// neighbors in memory), turned (whether the copy has the columns of memory as rows).
template <class Config, bool unit_strides>
class RowCopier {
  using Element = typename Config::Input;
  static constexpr int warps = Config::threads / 32, thread_rows = Config::thread_rows;

 public:
  static constexpr int block_rows = warps * thread_rows, block_columns = 32 * 16 / sizeof(Element);

  // The block in this place of a matrix that starts so many elements behind the first.
  static __device__ __forceinline__ void copy(const Repacking& part, int down, int across,
                                              int64_t from, int64_t to) {
    const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);  // of which the compiler knows
    const int chunk = across * 32 + threadIdx.x % 32;
    const int first_row = down * block_rows + warp;
    const bool with_ends = across == 0;
    const Element* source = static_cast<const Element*>(part.from.pointer) + from;
    Element* destination = static_cast<Element*>(part.to.pointer) + to;
    source += first_row * part.from_row;
    destination += first_row * part.to_row;
    const int64_t from_step = warps * part.from_row, to_step = warps * part.to_row;
    typename PartOf<Element, unit_strides>::type parts[thread_rows];
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) {
      if (first_row + i * warps < part.rows) {
        parts[i].load(source + i * from_step, part.from_column, part.columns, chunk, with_ends);
      }
    }
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) {
      if (first_row + i * warps < part.rows) {
        parts[i].store(destination + i * to_step, part.columns, chunk, with_ends);
      }
    }
  }
};

// The same of a turned operand. A thread reads chunks of a tile's rows, whose columns it stores.
template <class Config, bool unit_strides>
class TileTurner {
  static constexpr int tile = 128, across_tile = tile / 16;            // chunks of a row
  static constexpr int chunks = tile * across_tile / Config::threads;  // of a thread

  struct TileConfig {
    static constexpr int tile_m = tile, tile_n = tile, threads = Config::threads;
    static constexpr int transposed_bytes = 16;
    static constexpr bool transposed = true;
  };
  using Tile = CodeTile<TileConfig>;

  // A chunk of a row, in the two aligned ones that it straddles, of which one is enough if it
  // begins on 16 bytes.
  struct Straddling {
    uint32_t both[8] = {};
    bool inside;  // whether these lie inside the row
    int ahead;    // how many elements the chunk begins behind a multiple of 16 bytes

    __device__ __forceinline__ void load(const uint8_t* row, int column, int columns) {
      const uint8_t* const chunk = row + column;
      ahead = reinterpret_cast<uint64_t>(chunk) % 16;
      inside = unit_strides && column >= ahead && columns - column >= (ahead ? 32 - ahead : 16);
      const uint8_t* const aligned = chunk - ahead;
      load_existing(*reinterpret_cast<uint32_t (*)[4]>(both), aligned, inside);
      load_existing(*reinterpret_cast<uint32_t (*)[4]>(both + 4), aligned + 16, inside && ahead);
    }

    __device__ __forceinline__ void cut(uint32_t (&words)[4], const uint8_t* row, int64_t stride,
                                        int column, int columns) {
      if (inside) {
        straddle(words, both, ahead);
        return;
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const uint32_t element = column + i < columns ? row[(column + i) * stride] : 0;
        words[i / 4] = i % 4 ? words[i / 4] | element << i % 4 * 8 : element;
      }
    }
  };

 public:
  static constexpr int block_rows = tile, block_columns = tile;

  static __device__ __forceinline__ void copy(const Repacking& part, int down, int across,
                                              int64_t from, int64_t to) {
    __shared__ __align__(16) uint8_t shared[tile * tile];
    const int first_row = down * tile, first_column = across * tile;
    const int own_row = threadIdx.x / across_tile, own_column = threadIdx.x % across_tile * 16;
    const int rows = part.rows - first_row, column = first_column + own_column;
    const int64_t from_column = unit_strides ? 1 : part.from_column;
    const uint8_t* const source =
        static_cast<const uint8_t*>(part.from.pointer) + from + first_row * part.from_row;
    constexpr int step = Config::threads / across_tile;
    Straddling straddling[chunks];
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int row = own_row + i * step, columns = row < rows ? part.columns : 0;
      straddling[i].load(source + row * part.from_row, column, columns);
    }
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int row = own_row + i * step, columns = row < rows ? part.columns : 0;
      uint32_t words[4];
      straddling[i].cut(words, source + row * part.from_row, from_column, column, columns);
      copy_piece<16>(&shared[Tile::place(row, own_column, row / 16)], words);
    }
    __syncthreads();
    uint8_t* const destination = static_cast<uint8_t*>(part.to.pointer) + to;
    Tile::store_columns(shared, destination + first_column * part.to_row + first_row, part.to_row,
                        rows, part.columns - first_column);
  }
};

template <class Config, bool unit_strides, bool turned>
struct CopierOf {
  using type = RowCopier<Config, unit_strides>;
};

template <class Config, bool unit_strides>
struct CopierOf<Config, unit_strides, true> {
  using type = TileTurner<Config, unit_strides>;
};

// Copies the block if it is one of this operand's; returns how many these are.
template <class Config, bool unit_strides, bool turned>
__device__ __forceinline__ uint32_t copy_one(const GemmParameters& parameters,
                                             const Repacking& part, uint32_t block) {
  using Copier = typename CopierOf<Config, unit_strides, turned>::type;
  const uint32_t across = ceil_div(part.columns, Copier::block_columns);
  const uint32_t of_matrix = across * ceil_div(part.rows, Copier::block_rows);
  const bool one = !Config::batched || is_broadcast(parameters, part.to);
  const uint32_t all = one ? of_matrix : of_matrix * parameters.batch_count;
  if (block < all) {
    const int batch = one ? 0 : block / of_matrix;
    const uint32_t place = block - batch * of_matrix;
    Copier::copy(part, place / across, place % across, batch_offset(parameters, part.from, batch),
                 batch_offset(parameters, part.to, batch));
  }
  return all;
}

// `matrix` as it lies in memory, (rows, columns) or transposed; turned: what is a row there is a
// column of the copy.
template <bool transposed, bool turned>
__device__ __forceinline__ Repacking as_stored(const MatrixParameters& from,
                                               const MatrixParameters& to, int rows, int columns) {
  const int64_t to_row = transposed == turned ? to.row_stride : to.column_stride;
  if constexpr (transposed) {
    return {from, to, from.column_stride, from.row_stride, to_row, columns, rows};
  } else {
    return {from, to, from.row_stride, from.column_stride, to_row, rows, columns};
  }
}

template <class Config>
__device__ __forceinline__ void repack_kernel(const GemmParameters& parameters) {
  wait_for_earlier_grids();
  launch_next_grid();
  uint32_t block = blockIdx.x;
  if constexpr (Config::copies_a) {
    const uint32_t of_a = copy_one<Config, Config::a_unit_strides, Config::a_turned>(
        parameters,
        as_stored<Config::a_transposed, Config::a_turned>(parameters.a, parameters.c, parameters.m,
                                                          parameters.k),
        block);
    if (block < of_a) return;
    block -= of_a;
  }
  if constexpr (Config::copies_b) {
    copy_one<Config, Config::b_unit_strides, Config::b_turned>(
        parameters,
        as_stored<Config::b_transposed, Config::b_turned>(parameters.b, parameters.bias,
                                                          parameters.k, parameters.n),
        block);
  }
}

}  // namespace tilewright
