// A warp's parts of A, B and out in registers, and mma.sync on them.
#pragma once
#include "epilogue/epilogue.cuh"
#include "epilogue/group_sums.cuh"
#include "epilogue/out_rows.cuh"
#include "layout/swizzle.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/mma_bytes.cuh"
#include "types.cuh"

namespace tilewright {

// This lane's part of the block at (mn, k) of the tile at `tile`, 16 x 32 bytes, read by a whole
// warp: four matrices of 8 x 16 bytes. They are numbered along mn first, for a fragment of A, or
// along k first, for two fragments of B. Layout is that of the tile's rows, which run along k if
// the tile is K-major. PTX ISA: matrix fragments for mma.m16n8k16, and for mma.m16n8k32 with
// elements of 1 byte, whose tiles are K-major.
template <class Layout, bool k_major, bool mn_first, int bytes = 2>
__device__ __forceinline__ void load_fragment(uint32_t (&words)[4], uint32_t tile, int mn, int k) {
  const int lane = threadIdx.x % 32;
  const int low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  mn += mn_first ? low : high;
  k += (mn_first ? high : low) * (k_major ? 2 / bytes : 1);
  ldmatrix_x4<!k_major>(words, tile + (k_major ? Layout::offset(mn + lane % 8, k)
                                               : Layout::offset(k + lane % 8, mn)));
}

// The fragments of A and B that a warp multiplies in one k step.
template <class Config,
          class LayoutA = SwizzledRows<Config::a_k_major ? Config::tile_k : Config::tile_m,
                                       sizeof(typename Config::Input)>,
          class LayoutB = SwizzledRows<Config::b_k_major ? Config::tile_k : Config::tile_n,
                                       sizeof(typename Config::Input)>>
struct Fragments {
  uint32_t a[Config::warp_m / 16][4];
  uint32_t b[Config::warp_n / 16][4];  // two neighbors of 8 columns each

  // Loads the 32 bytes of k from there on, of the stage whose tiles are at `a_tile` and `b_tile`;
  // the warp's block starts at (m, n).
  __device__ __forceinline__ void load(uint32_t a_tile, uint32_t b_tile, int m, int n, int k) {
    constexpr int bytes = sizeof(typename Config::Input);
#pragma unroll
    for (int i = 0; i < Config::warp_m / 16; ++i) {
      load_fragment<LayoutA, Config::a_k_major, true, bytes>(a[i], a_tile, m + i * 16, k);
    }
#pragma unroll
    for (int j = 0; j < Config::warp_n / 16; ++j) {
      load_fragment<LayoutB, Config::b_k_major, false, bytes>(b[j], b_tile, n + j * 16, k);
    }
  }
};

// The type of the sums of a Config's products.
template <class Config>
struct SumOf {
  using Type = float;
};

template <class Config>
  requires same<typename Config::Input, int8>
struct SumOf<Config> {
  using Type = int32_t;
};

// The sums of columns of B, which a Config needs if A has zero points: each column by an mma with a
// matrix of ones, whose rows of results are all the same.
template <class Config>
struct ColumnsOfB {};

template <HasZero Config>
struct ColumnsOfB<Config> {
  int32_t sums[Config::warp_n / 8][4] = {};

  __device__ __forceinline__ void add(int block, uint32_t b0, uint32_t b1) {
    constexpr uint32_t one = 0x01010101;  // four times
    mma_m16n8k32<int8, int8>(sums[block], {one, one, one, one}, b0, b1);
  }
};

template <class Config>
struct Accumulators : ColumnsOfB<Config> {
  using Sum = typename SumOf<Config>::Type;
  Sum d[Config::warp_m / 16][Config::warp_n / 8][4] = {};

  template <class... Layouts>
  __device__ __forceinline__ void multiply(const Fragments<Config, Layouts...>& f) {
#pragma unroll
    for (int i = 0; i < Config::warp_m / 16; ++i) {
#pragma unroll
      for (int j = 0; j < Config::warp_n / 8; ++j) {
        const uint32_t b0 = f.b[j / 2][j % 2 * 2], b1 = f.b[j / 2][j % 2 * 2 + 1];
        if constexpr (HasZero<Config>) {
          if (i == 0) this->add(j, b0, b1);
        }
        if constexpr (sizeof(typename Config::Input) == 1) {
          mma_m16n8k32<typename Config::Input, typename Config::InputB>(d[i][j], f.a[i], b0, b1);
        } else {
          mma_m16n8k16<typename Config::Input>(d[i][j], f.a[i], b0, b1);
        }
      }
    }
  }

  // A sum in one of a lane's two columns of block j, less what the zero point of its row adds.
  __device__ __forceinline__ Sum shifted(const EpilogueRow<Config>& row, Sum sum, int j,
                                         int column) const {
    if constexpr (HasZero<Config>) sum = row.expression.shifted(sum, this->sums[j][column]);
    return sum;
  }

  // Finishes and stores the warp's block, which starts at (m, n) of the sums. `smem`: that of the
  // CTA, which nothing else uses anymore, if rows are staged.
  __device__ __forceinline__ void store(const Epilogue<Config>& epilogue, int m, int n,
                                        unsigned char* smem = nullptr) const {
    const OutRows<Config> rows(epilogue, m, n / sums_per_column<Config>, smem);
    if constexpr (HasColumnSums<Config>) {
      store_and_sum(epilogue, rows, m, n);
    } else {
      store_rows(epilogue.parameters, rows, m, n);
    }
  }

 private:
  __device__ __forceinline__ void store_rows(const GemmParameters& parameters,
                                             const OutRows<Config>& rows, int m, int n) const {
    const int first_row = m + threadIdx.x % 32 / 4, first_column = n + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < Config::warp_m / 8; ++i) {
      if (i * 8 % OutRows<Config>::together == 0 && m + i * 8 >= parameters.m) return;
      if (first_row + i * 8 < parameters.m) store_row(rows.at(first_row + i * 8), i, first_column);
      rows.flush((i + 1) * 8);
    }
  }

  // A lane's pairs in one of its rows.
  __device__ __forceinline__ void store_row(const EpilogueRow<Config>& row, int i,
                                            int first_column) const {
#pragma unroll
    for (int j = 0; j < Config::warp_n / 8; ++j) {
      const Sum* pair = d[i / 2][j] + i % 2 * 2;
      if constexpr (HasZero<Config>) {
        row.store_pair(shifted(row, pair[0], j, 0), shifted(row, pair[1], j, 1),
                       first_column + j * 8);
      } else {
        row.store_pair(pair[0], pair[1], first_column + j * 8);
      }
    }
  }

  // The same, with the sums of columns, in which all lanes take part.
  __device__ __forceinline__ void store_and_sum(const Epilogue<Config>& epilogue,
                                                const OutRows<Config>& out_rows, int m,
                                                int n) const {
    constexpr int of_sums = sums_per_column<Config>;  // blocks for each block of out
    const GemmParameters& parameters = epilogue.parameters;
    const int first_column = n + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < Config::warp_m / 16; ++i) {
      const int row = m + i * 16 + threadIdx.x % 32 / 4;
      const EpilogueRow<Config> rows[2] = {out_rows.at(row), out_rows.at(row + 8)};
      WarpGroupSums<Config, Config::warp_n / 8 / of_sums, !HasGate<Config>> sums(
          parameters, epilogue.batch, m + i * 16, n / of_sums);
#pragma unroll
      for (int j = 0; j < Config::warp_n / 8; j += of_sums) {
        float2 values[2] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (row + half * 8 >= parameters.m) continue;
          const EpilogueRow<Config>& at = rows[half];
          const Sum* pair = d[i][j] + half * 2;
          values[half] = at.store_pair(shifted(at, pair[0], j, 0), shifted(at, pair[1], j, 1),
                                       first_column + j * 8);
          if constexpr (HasGate<Config>) {
            const Sum* next = d[i][j + 1] + half * 2;
            values[half].y = at.store_pair(shifted(at, next[0], j + 1, 0),
                                           shifted(at, next[1], j + 1, 1), first_column + j * 8 + 8)
                                 .x;
          }
        }
        sums.add(j / of_sums, values[0], values[1]);
      }
      out_rows.flush((i + 1) * 16);
    }
  }
};

}  // namespace tilewright
