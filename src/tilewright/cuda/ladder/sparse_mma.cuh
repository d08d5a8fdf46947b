// Rung (a step aside): sparse tensor cores, for any A.
//
// mma.sp multiplies 32 of k in the time of 16, if of each four neighbours along k only two are
// kept. Any A is the sum of two such matrices: of each group of four the first two non-zeros, and
// the other two places.
//
//   group of A   0  x  0  y  |  x  y  z  w  |  0  0  0  x
//   first           x     y  |  x  y        |        0  x      always multiplied
//   other        0     0     |        z  w  |  0  0            where a warp finds a non-zero in it
//
// A lane reads two groups of a row at once, 16 bytes, splits them, and four lanes put together
// their places. The instruction's groups of k are in another order than A's for that, and so are
// the rows of B that ldmatrix is pointed at: a sum may be taken in any order.
//
// What is left out are zeros of A, and 0 * x is 0 unless x is NaN or infinite: whoever copies a
// part of B looks for such x, the barrier behind the copies tells everybody, and nothing is left
// out.
#pragma once
#include "kernels/epilogue.cuh"
#include "kernels/mma_fragments.cuh"
#include "kernels/parameters.cuh"
#include "ladder/warp_block.cuh"
#include "layout/padding.cuh"
#include "layout/swizzle.cuh"
#include "ptx/mma_sparse.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// The bits of the exponent, of both elements of a word.
template <class Input>
constexpr uint32_t exponents = 0;
template <>
constexpr uint32_t exponents<bf16> = 0x7f807f80;
template <>
constexpr uint32_t exponents<fp16> = 0x7c007c00;

// Whether one of two elements is NaN or infinite: one more than the largest exponent carries into
// the place of the sign.
template <class Input>
__device__ __forceinline__ bool has_nonfinite(uint32_t word) {
  constexpr uint32_t all = exponents<Input>, ones = all & ~(all << 1);
  return ((word & all) + ones & 0x80008000) != 0;
}

// As copy_tile, and whether an element that this thread has copied is NaN or infinite.
template <class Layout, int rows, int columns, int threads, class Input>
__device__ __forceinline__ bool copy_and_check(uint32_t tile, const Input* source, int64_t stride) {
  bool found = false;
  for_each_chunk<rows, columns, threads>([&](int row, int column) {
    const uint4 chunk = *reinterpret_cast<const uint4*>(source + row * stride + column);
    const uint32_t words[] = {chunk.x, chunk.y, chunk.z, chunk.w};
    for (const uint32_t word : words) found |= has_nonfinite<Input>(word);
    store_shared(tile + Layout::offset(row, column), words);
  });
  return found;
}

// A fragment of A, (16, 32), as two that keep half of it each: the first two non-zeros of each
// group of four, and the rest. Matrix i of a fragment has rows i % 2 * 8... and groups i / 2 * 4...
struct SplitFragment {
  uint32_t kept[2][4];
  uint32_t places[2][4];  // of the lane's four groups

  // Splits group i, elements 0 to 3 from the lowest bits on.
  __device__ __forceinline__ void split(int i, uint32_t low, uint32_t high) {
    const bool x0 = low & 0x7fff, x1 = low & 0x7fff0000, x2 = high & 0x7fff;
    const uint32_t first = x0 ? 0 : x1 ? 1 : 2;
    const uint32_t second = x0 && x1 ? 1 : (x0 || x1) && x2 ? 2 : 3;
    // The other two, in order: pairs 01 and 23 are each other's rest, 02 and 13, 03 and 12.
    const uint32_t other = (first ^ second) == 1 ? 2 : 1;
    keep(0, i, low, high, first, second);
    keep(1, i, low, high, first ^ other, second ^ other);
  }

  // What lanes 0 and 1 of each four give to mma.sp.
  __device__ __forceinline__ uint32_t metadata(int part) const {
    const uint32_t lane = threadIdx.x % 4, (&p)[4] = places[part];
    const uint32_t words[] = {p[0] << lane * 4 | p[1] << (lane * 4 + 16),
                              p[2] << lane * 4 | p[3] << (lane * 4 + 16)};
    uint32_t mine = words[lane % 2];
    mine |= __shfl_xor_sync(~0u, words[1 - lane % 2], 1);
    return mine | __shfl_xor_sync(~0u, mine, 2);
  }

  __device__ __forceinline__ bool has_rest() const {
    return (kept[1][0] | kept[1][1] | kept[1][2] | kept[1][3]) & 0x7fff7fff;  // -0 is zero
  }

 private:
  __device__ __forceinline__ void keep(int part, int i, uint32_t low, uint32_t high, uint32_t first,
                                       uint32_t second) {
    kept[part][i] = __byte_perm(low, high, 0x1010 + first * 0x0022 + second * 0x2200);
    places[part][i] = first | second << 2;
  }
};

// Of the rows `m`... of the tile at `tile`: lane t of four has groups 2t and 2t + 1 of k, and takes
// for its first one the even group where t is even, so that eight lanes of load_b cover the banks.
template <class Layout>
__device__ __forceinline__ SplitFragment load_a(uint32_t tile, int m) {
  const int row = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
  SplitFragment result;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t w[4];
    load_shared(w, tile + Layout::offset(m + i * 8 + row, lane * 8));
    const bool even = lane % 2 == 0;
    result.split(i, even ? w[0] : w[2], even ? w[1] : w[3]);
    result.split(i + 2, even ? w[2] : w[0], even ? w[3] : w[1]);
  }
  return result;
}

// The fragment of B, (32, 8), at column n, in that order of k.
template <class Layout>
__device__ __forceinline__ void load_b(uint32_t (&words)[4], uint32_t tile, int n) {
  const int k = threadIdx.x % 32;
  ldmatrix_x4<true>(words,
                    tile + Layout::offset(k % 16 / 4 * 8 + (k / 4 + k / 16) % 2 * 4 + k % 4, n));
}

template <class Config>
__device__ __forceinline__ void sparse_mma_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  static_assert(Config::tile_k == 32);
  using LayoutA = PaddedRows<Config::tile_k, 0>;
  using LayoutB = SwizzledRows<Config::tile_n>;
  __shared__ alignas(128) Input tile_a[Config::tile_m * Config::tile_k];
  __shared__ alignas(128) Input tile_b[Config::tile_k * Config::tile_n];
  const uint32_t smem_a = shared_address(tile_a), smem_b = shared_address(tile_b);

  const WarpBlock<Config> block(parameters);
  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const Input* a = static_cast<const Input*>(parameters.a.pointer) + block.tile_m * a_stride;
  const Input* b = static_cast<const Input*>(parameters.b.pointer) + block.tile_n;

  Accumulators<Config> accumulators;
#pragma unroll 1
  for (int k_tile = 0; k_tile < parameters.k; k_tile += Config::tile_k) {
    copy_tile<LayoutA, Config::tile_m, Config::tile_k, Config::threads>(smem_a, a, a_stride);
    const bool nonfinite = copy_and_check<LayoutB, Config::tile_k, Config::tile_n, Config::threads>(
        smem_b, b, b_stride);
    a += Config::tile_k;
    b += Config::tile_k * b_stride;
    const bool multiply_zeros = __syncthreads_or(nonfinite);

    uint32_t fragments_b[Config::warp_n / 8][4];
#pragma unroll
    for (int j = 0; j < Config::warp_n / 8; ++j) {
      load_b<LayoutB>(fragments_b[j], smem_b, block.n + j * 8);
    }
#pragma unroll
    for (int i = 0; i < Config::warp_m / 16; ++i) {
      const SplitFragment fragment = load_a<LayoutA>(smem_a, block.m + i * 16);
      const int parts = multiply_zeros || __any_sync(~0u, fragment.has_rest()) ? 2 : 1;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        if (part == parts) break;
        const uint32_t places = fragment.metadata(part);
#pragma unroll
        for (int j = 0; j < Config::warp_n / 8; ++j) {
          mma_sparse_m16n8k32<Input>(accumulators.d[i][j], fragment.kept[part], fragments_b[j],
                                     places);
        }
      }
    }
    __syncthreads();  // the tiles have been read: the next ones may come
  }

  accumulators.store(Epilogue<Config>(parameters, 0), block.tile_m + block.m,
                     block.tile_n + block.n);
}

}  // namespace tilewright
