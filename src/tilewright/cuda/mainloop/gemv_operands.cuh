// The operands of `gemv` on their way from GMEM to the registers that are multiplied. Neither
// passes SMEM.
//
// A step is 64 * k_parts bytes of k. With g = lane / 4 and t = lane % 4, a lane loads 16 bytes of
// neighbors along k at once: those from byte (g % k_parts) * 64 + 16 * t on. Of fp32, CUDA cores
// multiply the four elements with those of every row, so each lane loads these of every row. Of
// elements of 2 bytes, the 16 bytes are parts of fragments of mma.sync, which so have k in another
// order than its manual says, the same for weights and activations, and the sum is the same.
//
// There, weights are the fragment of 16 rows (A in PTX), activations that of 8 columns (B). If
// k_parts is more than 1, a row of the fragment has a part of a column of the weights, and a column
// a part of a row of activations, of 32 of k each:
//
//   k_parts = 2             activations 0      activations 1   ...
//                           part 0   part 1    part 0   part 1
//   weights 0    part 0       sum                sum
//                part 1                sum                sum
//   weights 1    part 0       sum                sum
//
// A product of different parts means nothing, and is not used. Columns are spare: eight are
// multiplied at once. What it gives is width: a load of a warp reads k_parts * 64 neighboring bytes
// of each column of the weights. 28672x8192 at one row took an H200 105.4 us with 512 bytes, 108.5
// with 128 and 121 with 64.
//
// Operands are read step by step, every `workers`-th, and each load goes on to the next. Where
// 16 bytes straddle chunks, `load` brings the chunks, and `cut` the elements from them. What
// lies outside of a row of memory is never read: a step whose loads may reach beyond it is read by
// `load_end`.
#pragma once
#include "epilogue/expression.cuh"
#include "mainloop/wide_loads.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// A lane's place along k in each step.
template <class Config>
__device__ __forceinline__ int place_in_step() {
  constexpr int elements = wide<typename Config::Input>;
  return threadIdx.x % 32 / 4 % Config::k_parts * 4 * elements + threadIdx.x % 4 * elements;
}

// Vectors along k: rows of activations or columns of weights, `size` of them. A lane has `count`,
// every `apart`-th, so one for each eight rows or columns of fragments. Beyond the last one that
// exists, it reads an earlier one again. straddles: 16 bytes lie in two chunks, which `bytes` is
// the size of. stacked: vectors 2j and 2j + 1 are number j of the matrix and of its second half.
template <class Config, int size, int apart, int bytes, bool straddles, bool once,
          bool stacked = false>
class VectorsAlongK {
  using Input = typename Config::Input;
  const Input* source;  // of the first one
  int64_t distance, stride, half;
  int last;
  Runs<Input, bytes> runs;

  __device__ __forceinline__ const Input* at(int i, int last_one) const {
    return at(minimum(i, last_one));
  }

  __device__ __forceinline__ const Input* at(int i) const {
    if constexpr (stacked && apart == 1) return source + i / 2 * distance + i % 2 * half;
    return source + i * distance;
  }

  // As `last`, but what follows from it is computed again, and not kept in registers.
  __device__ __forceinline__ int computed_again() const {
    int again = last;
    asm volatile("" : "+r"(again));
    return again;
  }

 public:
  static constexpr int count = size / apart;
  // Elements beyond a step that its loads may read.
  static constexpr int reach = straddles ? wide<Input> : 0;
  static constexpr bool loads = true;
  using Words = uint32_t[count][straddles ? 8 : 4];

  // The lane's place among `apart` vectors.
  static __device__ __forceinline__ int place() {
    return apart == 1 ? 0 : threadIdx.x % 32 / 4 / Config::k_parts;
  }

  // Vectors number `first` to `end` - 1 of `matrix`, from step `step` on.
  __device__ __forceinline__ VectorsAlongK(const GemmParameters& p, const MatrixParameters& matrix,
                                           int batch, int64_t mn_stride, int64_t k_stride,
                                           int first, int end, int step)
      : distance((stacked && apart > 1 ? apart / 2 : apart) * mn_stride),
        stride(bytes > sizeof(Input) ? 1 : k_stride),
        half(end / 2 * mn_stride),
        last(maximum(end - 1 - first - place(), 0) / apart),
        runs(stride) {
    const int own = minimum(first + place(), end - 1);
    source = static_cast<const Input*>(matrix.pointer) + batch_offset(p, matrix, batch) +
             place_in_step<Config>() * stride;
    source += stacked ? own / 2 * mn_stride + own % 2 * half : own * mn_stride;
    skip(step);
  }

  __device__ __forceinline__ void skip(int steps) {
    source += static_cast<int64_t>(steps) * Config::tile_k * stride;
  }

  __device__ __forceinline__ void load(Words& words) {
    const int last_one = computed_again();
#pragma unroll
    for (int i = 0; i < count; ++i) load_wide<once>(words[i], at(i, last_one), runs);
    skip(Config::workers);
  }

  // What k has of a step from which on it has `left`, cut.
  __device__ __forceinline__ void load_end(Words& words, int left) const {
    left -= place_in_step<Config>();
    if constexpr (straddles) {
      load_elements<Input>(
          words, [&](int) { return left; }, [&](int i, int j) { return at(i, last) + j; });
    } else {
      load_wide_up_to(words, runs, left, [&](int i) { return at(i, last); });
    }
  }

  // Words of any step that has been loaded: all begin at the same place in a chunk.
  __device__ __forceinline__ void cut(Words& words) const {
    if constexpr (straddles) {
#pragma unroll
      for (int i = 0; i < count; ++i) cut_wide(words[i], at(i));
    }
  }

  // What `load` would read. Each sector is asked for once.
  __device__ __forceinline__ void prefetch() const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (threadIdx.x % 2 == 0) prefetch_to_l2(at(i, last));
    }
  }
};

// Rows of A, tile_m from `first_m` on.
template <class Config>
struct Activations : VectorsAlongK<Config, Config::tile_m, Config::rows_apart, Config::a_bytes,
                                   Config::a_straddles, false> {
  using Vectors = VectorsAlongK<Config, Config::tile_m, Config::rows_apart, Config::a_bytes,
                                Config::a_straddles, false>;

  __device__ __forceinline__ Activations(const GemmParameters& p, int batch, int first_m, int step)
      : Vectors(p, p.a, batch, p.a.row_stride, p.a.column_stride, first_m, p.m, step) {}
};

// Columns of B, tile_n from `first_n` on; a lane has parts of `count` of them, or an mma's
// fragments of two each. k_major: neighbors in memory are neighbors along k.
template <class Config, bool k_major = Config::b_k_major>
struct Weights : VectorsAlongK<Config, Config::tile_n, 8 / Config::k_parts, Config::b_bytes,
                               Config::b_straddles, true, IsStacked<Config>> {
  static constexpr int apart = 8 / Config::k_parts;
  using Vectors = VectorsAlongK<Config, Config::tile_n, apart, Config::b_bytes, Config::b_straddles,
                                true, IsStacked<Config>>;

  __device__ __forceinline__ Weights(const GemmParameters& p, int batch, int first_n, int step)
      : Vectors(p, p.b, batch, p.b.column_stride, p.b.row_stride, first_n, p.n, step) {}

  // The column of the tile that number `number` of the lane's is. In fragments, rows g and g + 8 of
  // block number j belong to 2j and 2j + 1.
  static __device__ __forceinline__ int column_of(int number) {
    return number * apart + Vectors::place();
  }

  // The bits of an element: number `i` along the lane's k of one of its columns.
  static __device__ __forceinline__ uint32_t element(const typename Vectors::Words& words,
                                                     int column, int i) {
    return words[column][i];
  }

  // The fragment of a block for half of the lane's k.
  static __device__ __forceinline__ void fragment(uint32_t (&a)[4],
                                                  const typename Vectors::Words& words, int block,
                                                  int half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = words[block * 2 + i % 2][half * 2 + i / 2];
  }
};

// The same where neighbors in memory are neighbors along n. Of elements of 2 bytes, a lane loads 8
// of these at once, from 8 * g on, in each of its 8 rows of k. Two rows make pairs along k: row g
// of block j has column 8 * g + 2 * j of 64, and row g + 8 the next one. Of 4 bytes, it loads 4 in
// each of 4 rows. Chunks that reach beyond a row reach to its neighbors, if rows are next to each
// other in memory.
template <class Config>
class Weights<Config, false> {
  using Input = typename Config::Input;
  static constexpr int elements = wide<Input>;  // and rows of k of a lane
  static constexpr int groups = Config::tile_n / (8 * elements);
  static constexpr bool straddles = Config::b_straddles;
  static constexpr int no_end = 0x7FFFFFFF;
  const Input* source;
  int64_t stride;  // along k
  int n;
  bool packed;  // rows are next to each other
  bool in_row;  // no chunk in which the tile lies reaches beyond its row
  Runs<Input, Config::b_bytes> runs[groups];

 public:
  static constexpr int count = groups * elements;
  // Rows before and after those of a step that its loads may read.
  static constexpr int reach = straddles ? 1 : 0;
  bool loads;  // whether `load` may read any step at all
  using Words = uint32_t[count][straddles ? 8 : 4];

  __device__ __forceinline__ Weights(const GemmParameters& p, int batch, int first_n, int step)
      : source(static_cast<const Input*>(p.b.pointer) + batch_offset(p, p.b, batch) +
               place_in_step<Config>() * p.b.row_stride),
        stride(p.b.row_stride),
        n(p.n),
        packed(p.b.row_stride == p.n && p.n >= 2 * elements) {
    const int end = first_n + Config::tile_n + elements;
    in_row = first_n >= elements && end <= n;
    loads = !straddles || in_row || (packed && end <= 2 * static_cast<int64_t>(n));
    skip(step);
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const int column = first_n + (i * 8 + threadIdx.x % 32 / 4) * elements;
      runs[i] = Runs<Input, Config::b_bytes>(p.b.column_stride, column, straddles ? no_end : p.n);
    }
  }

  __device__ __forceinline__ void skip(int steps) {
    source += static_cast<int64_t>(steps) * Config::tile_k * stride;
  }

  static __device__ __forceinline__ int column_of(int number) {
    return (number / elements * 8 + threadIdx.x % 32 / 4) * elements + number % elements;
  }

  static __device__ __forceinline__ uint32_t element(const Words& words, int column, int i) {
    return words[column / elements * elements + i][column % elements];
  }

  __device__ __forceinline__ void prefetch() const {
    for_each_row([&](int, const Input* row) {
#pragma unroll
      for (int i = 0; i < groups; ++i) {
        if (threadIdx.x / 4 % 2 == 0) prefetch_to_l2(row + runs[i].offsets[0]);
      }
    });
  }

  __device__ __forceinline__ void load(Words& words) {
    for_each_row([&](int number, const Input* row) {
#pragma unroll
      for (int i = 0; i < groups; ++i) load_wide<true>(words[i * elements + number], row, runs[i]);
    });
    skip(Config::workers);
  }

  __device__ __forceinline__ void load_end(Words& words, int left) const {
    left -= place_in_step<Config>();
    if (!straddles || in_row) {
      for_each_row([&](int number, const Input* row) {
#pragma unroll
        for (int i = 0; i < groups; ++i) {
          auto& chunk = words[i * elements + number];
#pragma unroll
          for (uint32_t& word : chunk) word = 0;
          if (number < left) load_wide<true>(chunk, row, runs[i]);
        }
      });
      cut(words);
    } else if constexpr (straddles) {
      load_elements<Input>(
          words, [&](int i) { return i % elements < left ? n - column_from(i) : 0; },
          [&](int i, int j) { return source + i % elements * stride + column_from(i) + j; });
    }
  }

  __device__ __forceinline__ void cut(Words& words) const {
    if constexpr (straddles) {
      for_each_row([&](int number, const Input* row) {
#pragma unroll
        for (int i = 0; i < groups; ++i) {
          cut_wide(words[i * elements + number], row + runs[i].offsets[0]);
        }
      });
    }
  }

  static __device__ __forceinline__ void fragment(uint32_t (&a)[4], const Words& words, int block,
                                                  int half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = block / 4 * 8 + half * 4 + i / 2 * 2;
      a[i] = __byte_perm(words[row][block % 4], words[row + 1][block % 4], i % 2 ? 0x7632 : 0x5410);
    }
  }

 private:
  // Calls body(number, row) for each of the lane's rows.
  template <class Body>
  __device__ __forceinline__ void for_each_row(Body body) const {
    const Input* row = source;
#pragma unroll
    for (int i = 0; i < elements; ++i, row += stride) body(i, row);
  }

  // The first column of the lane's in vector number `i`.
  __device__ __forceinline__ int column_from(int i) const { return runs[i / elements].offsets[0]; }
};

}  // namespace tilewright
