// fp32 GEMM on the CUDA cores, for every shape, stride and alignment.
//
// One CTA makes one (tile_m, tile_n) tile of out; along k it works through tiles of A and B, which
// are kept in SMEM with mn contiguous, in two buffers: while one is multiplied, the next tile is on
// its way through registers to the other. A warp makes a block of (warp_m, warp_n), each lane
// (thread_m, thread_n) of it, in 4x4 pieces that lie a whole row or column of lanes apart, so that
// lanes side by side read neighbouring float4:
//
//              lane column 0   1  ...   0   1  ...
//   lane row 0   |  4x4  |  4x4  | ... |  4x4  |  4x4  |
//   lane row 1   |  4x4  |  4x4  | ... |  4x4  |  4x4  |
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/parameters.cuh"
#include "kernels/tile_cursor.cuh"
#include "layout/raster.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
struct Storage {
  alignas(16) float a[2][Config::tile_k * Config::tile_m];  // (buffer, tile_k, tile_m)
  alignas(16) float b[2][Config::tile_k * Config::tile_n];  // (buffer, tile_k, tile_n)
};

// Where element (k, mn) of a tile is kept. Groups of 8 trade places from one group of 4 rows to the
// next: threads that hold four neighbours along k of 8 neighbouring rows each store one of them to
// 32 different banks.
template <int tile_mn>
__device__ __forceinline__ int tile_index(int k, int mn) {
  return k * tile_mn + (mn ^ k / 4 % 4 * 8);
}

// Brings the tiles of one operand along k into SMEM: `fetch` loads one into registers, `put` stores
// it. What lies outside the matrix becomes zero and is never read. Four `elements` at a time want
// aligned neighbours in GMEM.
template <int tile_mn, int tile_k, bool k_major, int elements, int threads>
class StagedCopy {
  using Cursor = TileCursor<float, tile_mn, tile_k, k_major, elements, threads>;
  Cursor cursor;
  alignas(16) float staged[Cursor::passes][elements];

 public:
  // The CTA's tiles start at row or column `mn_start` of the matrix, whose size is (mn, k).
  __device__ __forceinline__ StagedCopy(const float* matrix, int64_t mn_stride, int64_t k_stride,
                                        int mn_start, int mn, int k)
      : cursor(matrix, mn_stride, k_stride, mn_start, mn, k) {}

  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int pass = 0; pass < Cursor::passes; ++pass) {
      const int valid = cursor.valid(pass);
      if (elements == 4 && valid == 4) {
        *reinterpret_cast<float4*>(staged[pass]) = *reinterpret_cast<const float4*>(cursor.source);
      } else {
#pragma unroll
        for (int i = 0; i < elements; ++i) {
          staged[pass][i] = i < valid ? cursor.source[i] : 0.0f;
        }
      }
      cursor.advance(pass);
    }
  }

  __device__ __forceinline__ void put(float* tile) const {
#pragma unroll
    for (int pass = 0; pass < Cursor::passes; ++pass) {
      const int row = cursor.row(pass);
      if constexpr (k_major) {
#pragma unroll
        for (int i = 0; i < elements; ++i) {
          tile[tile_index<tile_mn>(cursor.column + i, row)] = staged[pass][i];
        }
      } else if constexpr (elements == 4) {
        *reinterpret_cast<float4*>(tile + tile_index<tile_mn>(row, cursor.column)) =
            *reinterpret_cast<const float4*>(staged[pass]);
      } else {
        tile[tile_index<tile_mn>(row, cursor.column)] = staged[pass][0];
      }
    }
  }
};

// One lane's `thread_mn` elements of row k of a tile, from `mn` on, in groups of 4 that are
// `distance` apart.
template <int tile_mn, int thread_mn, int distance>
__device__ __forceinline__ void load_fragment(float (&fragment)[thread_mn], const float* tile,
                                              int mn, int k) {
#pragma unroll
  for (int i = 0; i < thread_mn; i += 4) {
    *reinterpret_cast<float4*>(fragment + i) =
        *reinterpret_cast<const float4*>(tile + tile_index<tile_mn>(k, mn + i / 4 * distance));
  }
}

template <class Config>
__device__ __forceinline__ void simt_kernel(const GemmParameters& parameters) {
  static_assert(sizeof(Storage<Config>) == Config::smem_bytes);
  extern __shared__ __align__(16) unsigned char smem[];
  Storage<Config>& storage = *reinterpret_cast<Storage<Config>*>(smem);

  const int tiles_m = ceil_div(parameters.m, Config::tile_m);
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  const int tiles_k = ceil_div(parameters.k, Config::tile_k);
  const TileIndex tile = grouped_tile(blockIdx.x, tiles_m, tiles_n, Config::group_m);
  const int first_m = tile.m * Config::tile_m, first_n = tile.n * Config::tile_n;

  constexpr int warps_n = Config::tile_n / Config::warp_n;
  constexpr int distance_m = Config::lanes_m * 4, distance_n = Config::lanes_n * 4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int thread_m = warp / warps_n * Config::warp_m + lane / Config::lanes_n * 4;
  const int thread_n = warp % warps_n * Config::warp_n + lane % Config::lanes_n * 4;

  const MatrixParameters &a = parameters.a, &b = parameters.b;
  StagedCopy<Config::tile_m, Config::tile_k, Config::a_k_major, Config::a_copy_elements,
             Config::threads>
      copy_a(static_cast<const float*>(a.pointer) + batch_offset(parameters, a, tile.batch),
             a.row_stride, a.column_stride, first_m, parameters.m, parameters.k);
  StagedCopy<Config::tile_n, Config::tile_k, Config::b_k_major, Config::b_copy_elements,
             Config::threads>
      copy_b(static_cast<const float*>(b.pointer) + batch_offset(parameters, b, tile.batch),
             b.column_stride, b.row_stride, first_n, parameters.n, parameters.k);

  float accumulators[Config::thread_m][Config::thread_n] = {};
  copy_a.fetch();
  copy_b.fetch();
  copy_a.put(storage.a[0]);
  copy_b.put(storage.b[0]);
  __syncthreads();

#pragma unroll 1
  for (int k_tile = 0; k_tile < tiles_k; ++k_tile) {
    const int buffer = k_tile % 2;
    copy_a.fetch();  // the next tile; zeros beyond the end of k
    copy_b.fetch();
#pragma unroll
    for (int k = 0; k < Config::tile_k; ++k) {
      alignas(16) float a_fragment[Config::thread_m];
      alignas(16) float b_fragment[Config::thread_n];
      load_fragment<Config::tile_m, Config::thread_m, distance_m>(a_fragment, storage.a[buffer],
                                                                  thread_m, k);
      load_fragment<Config::tile_n, Config::thread_n, distance_n>(b_fragment, storage.b[buffer],
                                                                  thread_n, k);
#pragma unroll
      for (int i = 0; i < Config::thread_m; ++i) {
#pragma unroll
        for (int j = 0; j < Config::thread_n; ++j) {
          accumulators[i][j] = fmaf(a_fragment[i], b_fragment[j], accumulators[i][j]);
        }
      }
    }
    // Everybody was done with the other buffer at the last barrier.
    copy_a.put(storage.a[1 - buffer]);
    copy_b.put(storage.b[1 - buffer]);
    __syncthreads();
  }

  const Epilogue<Config> epilogue(parameters, tile.batch);
#pragma unroll
  for (int i = 0; i < Config::thread_m; ++i) {
    const int m = first_m + thread_m + i / 4 * distance_m + i % 4;
    if (m >= parameters.m) return;
    const EpilogueRow<Config> row = epilogue.at_row(m);
#pragma unroll
    for (int j = 0; j < Config::thread_n; j += 2) {
      row.store_pair(accumulators[i][j], accumulators[i][j + 1],
                     first_n + thread_n + j / 4 * distance_n + j % 4);
    }
  }
}

}  // namespace tilewright
