// Codes of 8 bits and their scales: value = code * scale.
//
// A CTA has a tile of x, as x lies in memory: rows are what neighbors in memory belong to. It keeps
// the tile in registers from the loads until the codes are written. In between, it finds the
// largest finite magnitudes, of each row and each column of the tile or of the whole tile, and
// makes scales of them. A tile is 128 x 128, or has rows of x as a whole; where a scale is for more
// than a tile, a launch ahead leaves the largest magnitudes in a workspace.
//
// Codes of x are stored from registers: neighboring lanes have neighboring codes. Those of x
// transposed go through SMEM, and so do x's where memory allows less than a lane's codes at once.
//
// A code is x * (1 / scale), two roundings in fp32, rounded to the nearest: within half a unit of
// the code and 2^-22 of x / scale, and within half a unit if the scale is a power of two.
#pragma once
#include "epilogue/code_scale.cuh"
#include "epilogue/code_tile.cuh"
#include "layout/piece.cuh"
#include "mainloop/kept_tile.cuh"
#include "parameters.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/narrow.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Config names: Input; Codes; tile_m, tile_n, threads; source: a ScaleSource; measures: whether the
// launch only leaves `maxima`; by_line: whether each row (and each column) has a scale, else the
// tile or all of x; direct, transposed: which codes are written; load_bytes, direct_bytes,
// transposed_bytes: of an access to GMEM; power_of_two; saturate; and those of KeptTile.
template <class Config>
class QuantizeTile : KeptTile<Config> {
  using Base = KeptTile<Config>;
  using Base::across, Base::batch, Base::chunks, Base::column_of, Base::first_column;
  using Base::first_row, Base::forget_values, Base::in_chunk, Base::offset, Base::parameters;
  using Base::row_of, Base::rows_apart, Base::threads, Base::tile_column, Base::tile_m;
  using Base::tile_n, Base::tile_row, Base::value, Base::words;
  using typename Base::Input;
  using typename Base::Magnitude;
  static constexpr int warps = threads / 32, quads = in_chunk / 4;
  static constexpr int own_rows = rows_apart ? chunks : 1;
  static constexpr int row_lanes = minimum(across, 32);
  static constexpr int row_warps = maximum(minimum(across, threads) / 32, 1);
  static constexpr ScaleSource source = static_cast<ScaleSource>(Config::source);
  static constexpr bool of_rows = Config::by_line && Config::direct;
  static constexpr bool of_columns = Config::by_line && Config::transposed;
  static constexpr bool finds = Config::measures || source == ScaleSource::tile;
  // Each thread makes the one factor of the tile.
  static constexpr bool one_factor = !Config::by_line || (tile_m == 1 && !Config::transposed);
  static constexpr bool staged = Config::direct && Config::direct_bytes < 4 * quads;
  static_assert(!Config::transposed || 16 % rows_apart == 0, "a chunk's 16 rows are known");

  // What belongs to columns is in planes: of a chunk of 8, four in one and four in the other. Eight
  // neighboring lanes then have 128 neighboring bytes, and both planes differ in their banks.
  static constexpr int plane = tile_n / quads + (quads > 1 ? 16 : 0), planes = quads * plane;

  struct Storage {
    uint8_t codes[!Config::measures && (staged || Config::transposed) ? tile_m * tile_n : 16];
    float row_maxima[finds && of_rows ? tile_m * row_warps : 1];
    alignas(16) float column_maxima[finds && of_columns ? warps * planes : 4];
    float warp_maxima[warps];
    float row_factors[of_rows ? tile_m : 1];
    alignas(16) float column_factors[of_columns ? planes : 4];
  };

  static __device__ __forceinline__ Storage& storage() {
    __shared__ __align__(16) Storage shared;
    return shared;
  }

  float tile_factor;

  static __device__ __forceinline__ uint32_t in_planes(uint32_t column) {
    return column / in_chunk * 4 + column % 4 + column % in_chunk / 4 * plane;
  }

  // The largest magnitudes of what the thread has, and of all that; `finite`: Inf does not count.
  template <bool finite>
  __device__ __forceinline__ float find(uint32_t (&rows)[own_rows], uint32_t (&columns)[4]) const {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < own_rows; ++i) rows[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) columns[j] = 0;
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      uint32_t& row = rows[rows_apart ? i : 0];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        uint32_t word = words[i][j] & Magnitude::mask;
        if constexpr (finite) word = Magnitude::finite(word);
        row = Magnitude::larger(row, word);
        if constexpr (of_columns) columns[j] = Magnitude::larger(columns[j], word);
      }
      largest = Magnitude::larger(largest, row);
    }
    return largest_of_word<Input>(largest);
  }

  // Leaves the largest magnitudes of each warp's part of a row, a column or the tile in SMEM.
  __device__ __forceinline__ void find_maxima() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t rows[own_rows], columns[4];
    float largest = find<false>(rows, columns);
    if (__float_as_uint(largest) == 0x7F800000) {
      forget_values();
      largest = find<true>(rows, columns);
    }
    Storage& shared = storage();
    if constexpr (of_rows) {
#pragma unroll
      for (int i = 0; i < own_rows; ++i) {
        const uint32_t of_row = largest_of_lanes<Input, 1, row_lanes>(rows[i]);
        if (lane % row_lanes == 0) {
          shared.row_maxima[row_of(i) * row_warps + threadIdx.x % across / 32] =
              largest_of_word<Input>(of_row);
        }
      }
    }
    if constexpr (of_columns) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        columns[j] = largest_of_lanes<Input, row_lanes, 32>(columns[j]);
      }
      // With 8 columns a chunk, the lanes of the lower half of the warp write four, and those of
      // the upper half the other four.
      const int quad = quads > 1 ? lane / 16 : 0;
      float four[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        uint32_t word = columns[j / Magnitude::in_word];
        if (quads > 1 && quad) word = columns[2 + j / Magnitude::in_word];
        four[j] = Magnitude::value(word, j % Magnitude::in_word);
      }
      const int at = warp * planes + quad * plane + lane % row_lanes * 4;
      store_shared(shared_address(&shared.column_maxima[at]),
                   make_float4(four[0], four[1], four[2], four[3]));
    }
    if constexpr (!Config::by_line) {
      const uint32_t of_warp = largest_of_lanes<float, 1, 32>(__float_as_uint(largest));
      if (lane == 0) shared.warp_maxima[warp] = __uint_as_float(of_warp);
    }
  }

  __device__ __forceinline__ float largest_of_row(int row) const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < row_warps; ++i) {
      largest = fmaxf(largest, storage().row_maxima[row * row_warps + i]);
    }
    return largest;
  }

  __device__ __forceinline__ float largest_of_column(int column) const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < warps; ++i) {
      largest = fmaxf(largest, storage().column_maxima[i * planes + in_planes(column)]);
    }
    return largest;
  }

  __device__ __forceinline__ float largest_of_tile() const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < warps; ++i) largest = fmaxf(largest, storage().warp_maxima[i]);
    return largest;
  }

  // The reciprocal of the scale at `place`, which is read if it is given. Otherwise it is made of
  // `largest` and, by one thread of all that make the same one, written.
  __device__ __forceinline__ float factor(float* place, float largest, bool writes) const {
    float scale;
    if constexpr (source == ScaleSource::given) {
      scale = *place;
    } else {
      scale = scale_of<Config>(largest);
      if (writes) *place = scale;
    }
    return __frcp_rn(scale);
  }

  __device__ __forceinline__ float* scale_at(const MatrixParameters& matrix, int row,
                                             int column) const {
    return static_cast<float*>(matrix.pointer) + offset(matrix, row, column);
  }

  // The largest magnitude of a line of x, in the workspace.
  __device__ __forceinline__ uint32_t* maximum_of_row(int row) const {
    return parameters.maxima + static_cast<int64_t>(batch) * parameters.m + row;
  }
  __device__ __forceinline__ uint32_t* maximum_of_column(int column) const {
    const int64_t rows = static_cast<int64_t>(parameters.batch_count) * parameters.m;
    return parameters.maxima + rows + static_cast<int64_t>(batch) * parameters.n + column;
  }

  // The factors that codes are made with, from what `find_maxima` has left, or from memory.
  __device__ __forceinline__ void make_factors() {
    Storage& shared = storage();
    constexpr bool waits = source == ScaleSource::maxima;
    // Of one line of x, whose number in the matrix is `index`, with a scale in `matrix`.
    auto make = [&](float& of_line, int index, int extent, auto largest_here, uint32_t* maximum,
                    const MatrixParameters& matrix, int block, bool writes) {
      if (index >= extent) {
        of_line = 0.0f;  // read, but what comes of it is not stored
        return;
      }
      const float largest = finds ? largest_here() : waits ? __uint_as_float(*maximum) : 0.0f;
      if constexpr (Config::measures) {
        raise(maximum, largest);
      } else {
        of_line = factor(scale_at(matrix, index, block), largest, writes && (finds || block == 0));
      }
    };
    const auto make_of_row = [&](float& of_row, int line, bool writes) {
      const int row = first_row() + line;
      make(
          of_row, row, parameters.m, [&] { return largest_of_row(line); }, maximum_of_row(row),
          parameters.scale, tile_column, writes);
    };
    if constexpr (of_rows && one_factor) {
      make_of_row(tile_factor, 0, threadIdx.x == 0);
    } else if constexpr (of_rows) {
      for (int line = threadIdx.x; line < tile_m; line += threads) {
        make_of_row(shared.row_factors[line], line, true);
      }
    }
    if constexpr (of_columns) {
      // Other threads than those with rows, if there are.
      for (int line = (threadIdx.x + tile_m) % threads; line < tile_n; line += threads) {
        const int column = first_column() + line;
        make(
            shared.column_factors[in_planes(line)], column, parameters.n,
            [&] { return largest_of_column(line); }, maximum_of_column(column),
            parameters.transposed_scale, tile_row, true);
      }
    }
    if constexpr (!Config::by_line) {
      if constexpr (Config::measures) {
        if (threadIdx.x == 0) raise(parameters.maxima, largest_of_tile());
      } else {
        const float largest = finds   ? largest_of_tile()
                              : waits ? __uint_as_float(*parameters.maxima)
                                      : 0.0f;
        const bool first = finds || blockIdx.x == 0;
        tile_factor = factor(scale_at(parameters.scale, tile_row, tile_column), largest,
                             first && threadIdx.x == 0);
      }
    }
  }

  // Makes the codes of x, or of x transposed, and passes those of each chunk to `put`.
  template <bool of_transposed>
  __device__ __forceinline__ void encode(auto put) const {
    float4 factors[quads];
    if constexpr (of_transposed && of_columns) {
#pragma unroll
      for (int j = 0; j < quads; ++j) {
        factors[j] = *reinterpret_cast<const float4*>(
            &storage().column_factors[in_planes(column_of(0) + 4 * j)]);
      }
    }
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      if constexpr (!(of_transposed && of_columns)) {
        const float one = one_factor ? tile_factor : storage().row_factors[row_of(i)];
#pragma unroll
        for (int j = 0; j < quads; ++j) factors[j] = make_float4(one, one, one, one);
      }
      uint32_t codes[quads];
#pragma unroll
      for (int j = 0; j < quads; ++j) {
        codes[j] = codes_of<typename Config::Codes, Config::saturate>(
            value(i, 4 * j) * factors[j].x, value(i, 4 * j + 1) * factors[j].y,
            value(i, 4 * j + 2) * factors[j].z, value(i, 4 * j + 3) * factors[j].w);
      }
      put(i, codes);
    }
  }

  __device__ __forceinline__ void put_in_shared(int i, const uint32_t (&codes)[quads]) const {
    const uint32_t at = CodeTile<Config>::place(row_of(i), column_of(i), i * rows_apart / 16);
    copy_piece<4 * quads>(&storage().codes[at], codes);
  }

  // Where the tile's codes begin in a matrix.
  __device__ __forceinline__ uint8_t* codes_at(const MatrixParameters& matrix, int row,
                                               int column) const {
    return static_cast<uint8_t*>(matrix.pointer) + offset(matrix, row, column);
  }

  // Encodes x's codes and stores them; `keeps`: leaves them in SMEM, too.
  template <bool keeps>
  __device__ __forceinline__ void store_from_registers() const {
    uint8_t* const codes = codes_at(parameters.codes, first_row(), first_column());
    const int64_t row_stride = parameters.codes.row_stride;
    const int rows = parameters.m - first_row(), columns = parameters.n - first_column();
    encode<false>([&](int i, const uint32_t (&words)[quads]) {
      const int row = row_of(i), column = column_of(i);
      if (row < rows && column < columns) {
        copy_piece<4 * quads>(codes + row * row_stride + column, words);
      }
      if constexpr (keeps) put_in_shared(i, words);
    });
  }

  __device__ __forceinline__ void store_rows() const {
    uint8_t* const codes = codes_at(parameters.codes, first_row(), first_column());
    CodeTile<Config>::store_rows(storage().codes, codes, parameters.codes.row_stride,
                                 parameters.m - first_row(), parameters.n - first_column());
  }

  __device__ __forceinline__ void store_columns() const {
    const MatrixParameters& matrix = parameters.transposed_codes;
    uint8_t* const codes = codes_at(matrix, first_column(), first_row());
    CodeTile<Config>::store_columns(storage().codes, codes, matrix.row_stride,
                                    parameters.m - first_row(), parameters.n - first_column());
  }

 public:
  __device__ __forceinline__ explicit QuantizeTile(const QuantizeParameters& of)
      : Base(of, blockIdx.x) {}

  __device__ __forceinline__ void run() {
    this->load();
    if constexpr (finds) {
      find_maxima();
      forget_values();
      __syncthreads();
    }
    make_factors();
    if constexpr (Config::measures) return;
    if constexpr (!one_factor) __syncthreads();
    const auto keep = [&](int i, const uint32_t (&codes)[quads]) { put_in_shared(i, codes); };
    if constexpr (staged) {
      encode<false>(keep);
      __syncthreads();
      store_rows();
    } else if constexpr (Config::direct) {
      store_from_registers<Config::transposed && !Config::by_line>();
    }
    if constexpr (Config::transposed) {
      constexpr bool others = Config::by_line || !Config::direct;  // than those of x
      if constexpr (others) {
        forget_values();
        if constexpr (staged) __syncthreads();
        encode<true>(keep);
      }
      if constexpr (others || !staged) __syncthreads();
      store_columns();
    }
  }
};

template <class Config>
__device__ __forceinline__ void quantize_kernel(const QuantizeParameters& parameters) {
  wait_for_earlier_grids();
  launch_next_grid();
  QuantizeTile<Config>(parameters).run();
}

}  // namespace tilewright
