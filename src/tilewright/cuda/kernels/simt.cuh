// fp32 GEMM on the CUDA cores, for every shape, stride and alignment.
//
// One CTA makes one (tile_m, tile_n) tile of out. Along k it works through tiles of A and B, which
// SMEM holds with mn contiguous, in two buffers: while one is multiplied, the next tile passes
// through registers to the other. Fragments are read from SMEM one k ahead of their products. Those
// of a tile's last k follow the barrier behind it, so that they hide the first reads of the next
// one. A warp makes a block of (warp_m, warp_n), and each lane makes (thread_m, thread_n) of it, in
// 4x4 pieces. The pieces lie a whole row or column of lanes apart, so that lanes beside each other
// read float4 beside each other:
//
//              lane column 0   1  ...   0   1  ...
//   lane row 0   |  4x4  |  4x4  | ... |  4x4  |  4x4  |
//   lane row 1   |  4x4  |  4x4  | ... |  4x4  |  4x4  |
//
// With few tiles and a long k, the split_k CTAs of a cluster each take a part of k (sm_90). Lanes
// then exchange their sums through SMEM, and each ends with a part of its rows.
#pragma once
#include "epilogue/epilogue.cuh"
#include "epilogue/group_sums.cuh"
#include "epilogue/quads.cuh"
#include "layout/raster.cuh"
#include "mainloop/staged_copy.cuh"
#include "parameters.cuh"
#include "ptx/cluster.cuh"
#include "ptx/grid_dependency.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/st_cluster.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

// What the places along mn are flipped by at k, in tiles of an operand that is contiguous along k:
// a warp stores 4 neighbors of k of each of 128 / tile_k rows, which then meet no bank conflicts.
// Four lanes or more along mn read pieces that are 16 apart, beyond all flips.
template <class Config, bool k_major, int lanes>
__device__ __forceinline__ constexpr int flip(int k) {
  constexpr bool flips = k_major && lanes % 4 == 0;
  return flips ? 128 / Config::tile_k * (k / 8) : 0;
}
template <class Config>
__device__ __forceinline__ constexpr int flip_of_a(int k) {
  return flip<Config, Config::a_k_major, Config::lanes_m>(k);
}
template <class Config>
__device__ __forceinline__ constexpr int flip_of_b(int k) {
  return flip<Config, Config::b_k_major, Config::lanes_n>(k);
}

template <class Config>
struct Storage {
  alignas(16) float a[2][Config::tile_k * pitch<Config::tile_m>];  // (buffer, tile_k, tile_m)
  alignas(16) float b[2][Config::tile_k * pitch<Config::tile_n>];  // (buffer, tile_k, tile_n)
};

// The sums of the CTAs of a cluster, behind their Storage: of each sender (row, 4 columns, thread).
template <class Config>
class PartSums {
  static constexpr int vectors = Config::thread_n / 4;

  // Where this thread's values of a row from the CTA of a part are, in any CTA: an SMEM address.
  static __device__ __forceinline__ uint32_t row_of(uint32_t received, int sender, int row) {
    return received + ((sender * rows + row) * vectors * Config::threads + threadIdx.x) * 16;
  }

 public:
  // Of a lane, in the end; the last CTAs may have fewer, or none.
  static constexpr int rows = ceil_div(Config::thread_m, Config::split_k);
  static_assert(sizeof(Storage<Config>) +
                    Config::split_k * rows * vectors * Config::threads * sizeof(float4) ==
                Config::smem_bytes);

  // From this lane's sums over a part of k to those over all of k, of the rows from part * rows on.
  // By all threads of the cluster, which add in the order of parts.
  static __device__ __forceinline__ void exchange(
      float (&kept)[rows][Config::thread_n], const float (&all)[Config::thread_m][Config::thread_n],
      uint32_t received, int part) {
    wait_for_starts();
#pragma unroll
    for (int i = 0; i < Config::thread_m; ++i) {
      const uint32_t there = cluster_address(row_of(received, part, i % rows), i / rows);
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        store_cluster(
            there + v * Config::threads * 16,
            make_float4(all[i][v * 4], all[i][v * 4 + 1], all[i][v * 4 + 2], all[i][v * 4 + 3]));
      }
    }
    cluster_sync();
#pragma unroll
    for (int sender = 0; sender < Config::split_k; ++sender) {
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        if (Config::thread_m % Config::split_k != 0 && part * rows + i >= Config::thread_m) break;
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
          float4 four;
          load_shared(four, row_of(received, sender, i) + v * Config::threads * 16);
          kept[i][v * 4] += four.x;
          kept[i][v * 4 + 1] += four.y;
          kept[i][v * 4 + 2] += four.z;
          kept[i][v * 4 + 3] += four.w;
        }
      }
    }
  }
};

// A lane's row and column in its warp. Of loads of 16 bytes, SMEM serves twice as many lanes at
// once if all that differ in bit 0 of their numbers, or all that differ in bit 1, read the same: so
// bit 0 is one of columns, and bit 1 one of rows.
template <class Config>
struct Lane {
  static constexpr bool interleaved = Config::lanes_m > 1 && Config::lanes_n > 1;
  static constexpr int next_row = interleaved ? 2 : Config::lanes_n;  // a lane of it is so far away
  const int lane = threadIdx.x % 32;
  const int row =
      interleaved ? lane / (2 * Config::lanes_n) * 2 + lane / 2 % 2 : lane / Config::lanes_n;
  const int column =
      interleaved ? lane / 4 * 2 % Config::lanes_n + lane % 2 : lane % Config::lanes_n;
};

// One lane's part of row k of the tiles of A and B, in groups of 4 that lie a row or column of
// lanes apart.
template <class Config>
struct Fragments {
  alignas(16) float a[Config::thread_m];
  alignas(16) float b[Config::thread_n];

  // From tiles at these addresses in SMEM; (m, n) is the lane's first place in the tile of out.
  __device__ __forceinline__ void load(uint32_t a_tile, uint32_t b_tile, int m, int n, int k) {
    load_row<pitch<Config::tile_m>, Config::lanes_m>(a, a_tile, m ^ flip_of_a<Config>(k), k);
    load_row<pitch<Config::tile_n>, Config::lanes_n>(b, b_tile, n ^ flip_of_b<Config>(k), k);
  }

  // Columns go back and forth, so successive products share an operand that is still at hand.
  __device__ __forceinline__ void multiply(
      float (&accumulators)[Config::thread_m][Config::thread_n]) const {
#pragma unroll
    for (int j = 0; j < Config::thread_n; ++j) {
#pragma unroll
      for (int step = 0; step < Config::thread_m; ++step) {
        const int i = j % 2 ? Config::thread_m - 1 - step : step;
        accumulators[i][j] = fmaf(a[i], b[j], accumulators[i][j]);
      }
    }
  }

 private:
  // What is known at compile time ends up in the instructions, beside one address for all of them.
  template <int tile_pitch, int lanes, int count>
  static __device__ __forceinline__ void load_row(float (&to)[count], uint32_t tile, int place,
                                                  int k) {
    const uint32_t from = tile + place * sizeof(float);
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      load_shared(*reinterpret_cast<float4*>(to + i),
                  from + (k * tile_pitch + i * lanes) * sizeof(float));
    }
  }
};

// Finishes and stores the lane's pieces, which start at (m, n) of the sums, with the sums of
// columns: four rows of lanes have the rows of a group.
template <class Config>
__device__ __forceinline__ void store_and_sum(
    const Epilogue<Config>& epilogue,
    const float (&accumulators)[Config::thread_m][Config::thread_n], int m, int n) {
  constexpr int lanes_n = Config::lanes_n, of_sums = sums_per_column<Config>;
  const GemmParameters& parameters = epilogue.parameters;
  const Lane<Config> lane;
  const int of_four = lane.row % 4;
#pragma unroll
  for (int i = 0; i < Config::thread_m; i += 4, m += 4 * Config::lanes_m) {
    const EpilogueRow<Config> rows[4] = {epilogue.at_row(m), epilogue.at_row(m + 1),
                                         epilogue.at_row(m + 2), epilogue.at_row(m + 3)};
    const GroupSums<Config> group(parameters, epilogue.batch, m - of_four * 4);
#pragma unroll
    for (int j = 0; j < Config::thread_n; j += 2) {
      const int column = n + j / 4 * 4 * lanes_n + j % 4;
      float2 sums[4] = {};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        if (m + r < parameters.m) {
          sums[r] = rows[r].store_pair(accumulators[i + r][j], accumulators[i + r][j + 1], column);
        }
#pragma unroll
        for (const int apart : {2 * lanes_n, Lane<Config>::next_row}) {
          sums[r].x = __fadd_rn(sums[r].x, __shfl_xor_sync(0xFFFFFFFF, sums[r].x, apart));
          sums[r].y = __fadd_rn(sums[r].y, __shfl_xor_sync(0xFFFFFFFF, sums[r].y, apart));
        }
      }
      if (of_four != 0) continue;
      const auto total = [](float a, float b, float c, float d) {
        return __fadd_rn(__fadd_rn(a, c), __fadd_rn(b, d));
      };
      group.put(column / of_sums, total(sums[0].x, sums[1].x, sums[2].x, sums[3].x));
      if (of_sums == 1) {
        group.put(column + 1, total(sums[0].y, sums[1].y, sums[2].y, sums[3].y));
      }
    }
  }
}

// Finishes and stores rows of a lane's pieces, of which the first is row `first` of these; the
// pieces start at (m, n).
template <class Config, int rows>
__device__ __forceinline__ void store(const Epilogue<Config>& epilogue,
                                      const float (&sums)[rows][Config::thread_n], int first, int m,
                                      int n) {
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int own = first + i, row_m = m + own / 4 * 4 * Config::lanes_m + own % 4;
    if (own >= Config::thread_m || row_m >= epilogue.parameters.m) return;
    const EpilogueRow<Config> row = epilogue.at_row(row_m);
#pragma unroll
    for (int j = 0; j < Config::thread_n; j += 4) {
      store_quad(row, sums[i] + j, n + j * Config::lanes_n);
    }
  }
}

template <class Config>
__device__ __forceinline__ void simt_kernel(const GemmParameters& parameters) {
  constexpr bool splits = Config::split_k > 1;
  static_assert(splits || sizeof(Storage<Config>) == Config::smem_bytes);
  extern __shared__ __align__(16) unsigned char smem[];
  Storage<Config>& storage = *reinterpret_cast<Storage<Config>*>(smem);

  if constexpr (splits) announce_start();
  const ClusterPlace<Config> place;
  const int tiles_m = ceil_div(parameters.m, Config::tile_m);
  const int tiles_n = ceil_div(parameters.n, Config::tile_n);
  // The part of k from first_k on, which may be empty.
  const int part_k =
      ceil_div(ceil_div(parameters.k, Config::tile_k), Config::split_k) * Config::tile_k;
  const int first_k = place.part * part_k;
  const int k = splits ? maximum(minimum(parameters.k - first_k, part_k), 0) : parameters.k;
  const int tiles_k = ceil_div(k, Config::tile_k);
  const TileIndex tile = grouped_tile(blockIdx.x / Config::split_k, tiles_m, tiles_n,
                                      parameters.batch_count, Config::group_m);
  const int first_m = tile.m * Config::tile_m, first_n = tile.n * Config::tile_n;

  constexpr int warps_n = Config::tile_n / Config::warp_n;
  const int warp = threadIdx.x / 32;
  const Lane<Config> lane;
  const int thread_m = warp / warps_n * Config::warp_m + lane.row * 4;
  const int thread_n = warp % warps_n * Config::warp_n + lane.column * 4;

  const MatrixParameters &a = parameters.a, &b = parameters.b;
  StagedCopy<Config::tile_m, Config::tile_k, Config::a_k_major, Config::a_copy_elements,
             Config::threads>
      copy_a(static_cast<const float*>(a.pointer) + batch_offset(parameters, a, tile.batch) +
                 first_k * a.column_stride,
             a.row_stride, a.column_stride, first_m, parameters.m, k);
  StagedCopy<Config::tile_n, Config::tile_k, Config::b_k_major, Config::b_copy_elements,
             Config::threads, IsStacked<Config>>
      copy_b(static_cast<const float*>(b.pointer) + batch_offset(parameters, b, tile.batch) +
                 first_k * b.row_stride,
             b.column_stride, b.row_stride, first_n, parameters.n, k,
             parameters.n / 2 * b.column_stride);

  float accumulators[Config::thread_m][Config::thread_n] = {};
  Fragments<Config> fragments[2] = {};  // of even and of odd k, at first zeros
  const auto fetch = [&] {
    if (copy_a.whole() && copy_b.whole()) {
      copy_a.fetch_whole();
      copy_b.fetch_whole();
    } else {
      copy_a.fetch();
      copy_b.fetch();
    }
  };
  const auto put = [&](int buffer) {
    copy_a.put(shared_address(storage.a[buffer]), flip_of_a<Config>(copy_a.column()));
    copy_b.put(shared_address(storage.b[buffer]), flip_of_b<Config>(copy_b.column()));
    __syncthreads();
  };
  const auto load = [&](int buffer, int k) {
    fragments[k % 2].load(shared_address(storage.a[buffer]), shared_address(storage.b[buffer]),
                          thread_m, thread_n, k);
  };
  wait_for_earlier_grids();
  fetch();
  launch_next_grid();
  put(0);

#pragma unroll 1
  for (int k_tile = 0; k_tile < tiles_k; ++k_tile) {
    const int buffer = k_tile % 2;
    load(buffer, 0);
    fragments[1].multiply(accumulators);  // the last k of the tile before; zeros at first
    fetch();                              // the next tile; zeros beyond the end of k
#pragma unroll
    for (int k = 0; k < Config::tile_k - 1; ++k) {
      load(buffer, k + 1);
      fragments[k % 2].multiply(accumulators);
    }
    put(1 - buffer);  // all threads were done with it at the last barrier
  }
  fragments[1].multiply(accumulators);

  const Epilogue<Config> epilogue(parameters, tile.batch);
  const int m = first_m + thread_m, n = first_n + thread_n;
  if constexpr (splits) {
    float sums[PartSums<Config>::rows][Config::thread_n] = {};
    PartSums<Config>::exchange(sums, accumulators, shared_address(smem + sizeof(storage)),
                               place.part);
    store(epilogue, sums, place.part * PartSums<Config>::rows, m, n);
  } else if constexpr (HasColumnSums<Config>) {
    store_and_sum(epilogue, accumulators, m, n);
  } else {
    store(epilogue, accumulators, 0, m, n);
  }
}

}  // namespace tilewright
