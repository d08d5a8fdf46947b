// Rung: Volta's mma.m8n8k4 by quad pairs, from permuted tiles; later GPUs run it in software.
//
// A is stored (k, m) and B (k, n). A lane loads 8 halves along m or n, which are two of its
// fragments for one k. A quad pair makes a 16x16 block by four products. The warp so makes 32x32,
// and two by two of these fill its (64, 64):
//
//   chunks of 8 rows of A            lanes of           B 0, 2        1, 3
//   0  half 0 of pairs 0 and 2                        +----------+----------+
//   1  half 0 of pairs 1 and 3         A 0, 2         |  pair 0  |  pair 2  |
//   2  half 1 of pairs 0 and 2                        +----------+----------+
//   3  half 1 of pairs 1 and 3         A 1, 3         |  pair 1  |  pair 3  |
//
// Lanes 0 to 7 then read chunks 0 and 1 of four rows k of A. Unpermuted rows are multiples of 128
// bytes long, so these four would start in one bank and take 4 passes. So each block of 4 rows by 8
// chunks is turned: chunks of one column lie side by side. [k c] is chunk c of row k:
//
//   as stored in GMEM                  in SMEM, where 8 chunks go once round the banks
//   k 0 | 00 01 02 03 04 05 06 07      | 00 10 20 30 01 11 21 31 |  chunks 0, 1
//   k 1 | 10 11 12 13 14 15 16 17      | 12 02 32 22 13 03 33 23 |  chunks 2, 3
//   k 2 | 20 21 22 23 24 25 26 27      | 24 34 04 14 25 35 05 15 |  chunks 4, 5
//   k 3 | 30 31 32 33 34 35 36 37      | 36 26 16 06 37 27 17 07 |  chunks 6, 7
//
// Eight lanes store one row k to all eight columns on the right. Eight lanes load one line of it.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/warp_block.cuh"
#include "parameters.cuh"
#include "ptx/mma_quad_pairs.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// A tile of 2-byte elements, (k, columns), in blocks of 4 rows by 64 columns.
template <int columns>
struct PermutedRows {
  static_assert(columns % 64 == 0);

  // Bytes from the start of the tile to element (k, column).
  static __device__ __forceinline__ uint32_t offset(uint32_t k, uint32_t column) {
    const uint32_t block = k / 4 * (columns / 64) + column / 64, chunk = column / 8 % 8;
    const uint32_t line = chunk / 2, position = chunk % 2 * 4 + (k % 4 ^ line);
    return block * 512 + line * 128 + position * 16 + column % 8 * 2;
  }
};

// A thread's part of a (tile_k, columns) tile, on the way from GMEM to SMEM.
template <class Config, int columns>
struct PassingTile {
  static constexpr int count = Config::tile_k * columns / (8 * Config::threads);
  uint4 chunks[count];

  __device__ __forceinline__ void fetch(const typename Config::Input* source, int64_t stride) {
    uint4* chunk = chunks;
    for_each_chunk<Config::tile_k, columns, Config::threads>([&](int k, int column) {
      *chunk++ = *reinterpret_cast<const uint4*>(source + k * stride + column);
    });
  }

  __device__ __forceinline__ void put(uint32_t tile) const {
    const uint4* chunk = chunks;
    for_each_chunk<Config::tile_k, columns, Config::threads>([&](int k, int column) {
      store_shared(tile + PermutedRows<columns>::offset(k, column),
                   {chunk->x, chunk->y, chunk->z, chunk->w});
      ++chunk;
    });
  }
};

template <class Config>
struct QuadPairs {
  // The lane's place in its quad, the number of its quad pair, and the quad's half of that pair.
  const uint32_t r = threadIdx.x % 4, pair = threadIdx.x / 4 % 4, half = threadIdx.x / 16 % 2;
  const uint32_t m, n;  // the lane's chunks of A and B, in the CTA's tile
  float d[Config::warp_m / 16][Config::warp_n / 16][8] = {};

  __device__ __forceinline__ explicit QuadPairs(const WarpBlock<Config>& block)
      : m(block.m + half * 16 + pair % 2 * 8), n(block.n + half * 16 + pair / 2 * 8) {}

  __device__ __forceinline__ void multiply(uint32_t tile_a, uint32_t tile_b) {
#pragma unroll
    for (int k = 0; k < Config::tile_k; k += 4) {
      uint32_t a[Config::warp_m / 32][4], b[Config::warp_n / 32][4];
#pragma unroll
      for (int i = 0; i < Config::warp_m / 32; ++i) {
        load_shared(a[i], tile_a + PermutedRows<Config::tile_m>::offset(k + r, m + i * 32));
      }
#pragma unroll
      for (int j = 0; j < Config::warp_n / 32; ++j) {
        load_shared(b[j], tile_b + PermutedRows<Config::tile_n>::offset(k + r, n + j * 32));
      }
#pragma unroll
      for (int i = 0; i < Config::warp_m / 16; ++i) {
#pragma unroll
        for (int j = 0; j < Config::warp_n / 16; ++j) {
          const uint32_t *rows = a[i / 2] + i % 2 * 2, *columns = b[j / 2] + j % 2 * 2;
          mma_m8n8k4(d[i][j], rows[0], rows[1], columns[0], columns[1]);
        }
      }
    }
  }

  // Rows of D lie like chunks of A and columns like those of B, in both halves of the quad pair.
  __device__ __forceinline__ void store(const Epilogue<Config>& epilogue,
                                        const WarpBlock<Config>& block) const {
    const int first_column = block.tile_n + block.n + pair / 2 * 8 + (r & 2);
#pragma unroll
    for (int i = 0; i < Config::warp_m / 16; ++i) {
#pragma unroll
      for (int low = 0; low < 4; low += 2) {
        const EpilogueRow<Config> row =
            epilogue.at_row(block.tile_m + m + i / 2 * 32 + i % 2 * 4 + low + (r & 1));
#pragma unroll
        for (int j = 0; j < Config::warp_n / 8; ++j) {
          const float* values = d[i][j / 2] + j % 2 * 4 + low;
          row.store_pair(values[0], values[1],
                         first_column + j / 4 * 32 + j % 2 * 16 + j / 2 % 2 * 4);
        }
      }
    }
  }
};

template <class Config>
__device__ __forceinline__ void volta_mma_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  __shared__ alignas(128) Input tile_a[2][Config::tile_k * Config::tile_m];
  __shared__ alignas(128) Input tile_b[2][Config::tile_k * Config::tile_n];

  const WarpBlock<Config> block(parameters);
  const int64_t a_stride = parameters.a.column_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + block.tile_m;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + block.tile_n;

  PassingTile<Config, Config::tile_m> next_a;
  PassingTile<Config, Config::tile_n> next_b;
  const auto fetch = [&](int k) {
    next_a.fetch(a + k * a_stride, a_stride);
    next_b.fetch(b + k * b_stride, b_stride);
  };
  fetch(0);

  QuadPairs<Config> quad_pairs(block);
#pragma unroll 1
  for (int k = 0, buffer = 0; k < parameters.k; k += Config::tile_k, buffer ^= 1) {
    next_a.put(shared_address(tile_a[buffer]));  // all threads left it before the last barrier
    next_b.put(shared_address(tile_b[buffer]));
    __syncthreads();
    if (k + Config::tile_k < parameters.k) fetch(k + Config::tile_k);
    quad_pairs.multiply(shared_address(tile_a[buffer]), shared_address(tile_b[buffer]));
  }
  quad_pairs.store(Epilogue<Config>(parameters, 0), block);
}

}  // namespace tilewright
