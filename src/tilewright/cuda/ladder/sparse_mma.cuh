// Rung (a side branch): sparse tensor cores, for any A.
//
// mma.sp multiplies 32 of k in the time of 16, if A keeps only two of each four neighbors along k.
// Any A is the sum of two such matrices: one has the first two non-zeros of each group of four, and
// the other has the other two places.
//
//   group of A   0  x  0  y  |  x  y  z  w  |  0  0  0  x
//   first           x     y  |  x  y        |        0  x      always multiplied
//   other        0     0     |        z  w  |  0  0            where a warp finds a non-zero in it
//
// A lane reads two groups of a row at once, 16 bytes, and splits them; then four lanes combine
// their places. For that, the instruction's groups of k are in another order than A's, and so are
// the rows of B that ldmatrix reads. This is correct, since a sum may be taken in any order.
//
// The instruction leaves out zeros of A, and 0 * x is 0 unless x is NaN or infinite. So the threads
// that copy B look for such x, the barrier after the copies tells all threads, and the dense
// instruction multiplies that tile.
#pragma once
#include "epilogue/epilogue.cuh"
#include "ladder/two_of_four.cuh"
#include "ladder/warp_block.cuh"
#include "layout/swizzle.cuh"
#include "mainloop/mma_fragments.cuh"
#include "parameters.cuh"
#include "ptx/mma_sparse.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// The bits of the exponents of both elements of a word.
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

// Like copy_tile; returns whether an element that this thread has copied is NaN or infinite.
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

// The rows from `m` on of the tile at `tile`. Lane t of four has groups 2t and 2t + 1 of k. It
// takes the even group first if t is even, so eight lanes of load_b cover the banks.
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

// The fragment of B, (32, 8), at column n, with k in the order of A's fragment.
template <class Layout>
__device__ __forceinline__ void load_b(uint32_t (&words)[4], uint32_t tile, int n) {
  const int k = threadIdx.x % 32;
  ldmatrix_x4<true>(words,
                    tile + Layout::offset(k % 16 / 4 * 8 + (k / 4 + k / 16) % 2 * 4 + k % 4, n));
}

// Multiplies 32 of k, if all of B is finite.
template <class Config>
__device__ __forceinline__ void multiply_sparse(Accumulators<Config>& accumulators, uint32_t tile_a,
                                                uint32_t tile_b, const WarpBlock<Config>& block) {
  uint32_t b[Config::warp_n / 8][4];
#pragma unroll
  for (int j = 0; j < Config::warp_n / 8; ++j) {
    load_b<SwizzledRows<Config::tile_n>>(b[j], tile_b, block.n + j * 8);
  }
#pragma unroll
  for (int i = 0; i < Config::warp_m / 16; ++i) {
    const SplitFragment a = load_a<SwizzledRows<Config::tile_k>>(tile_a, block.m + i * 16);
    const bool both = __any_sync(~0u, a.has_rest());
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (part == 1 && !both) break;
      const uint32_t places = a.metadata(part);
#pragma unroll
      for (int j = 0; j < Config::warp_n / 8; ++j) {
        mma_sparse_m16n8k32<typename Config::Input>(accumulators.d[i][j], a.kept[part], b[j],
                                                    places);
      }
    }
  }
}

template <class Config>
__device__ __forceinline__ void sparse_mma_kernel(const GemmParameters& parameters) {
  using Input = typename Config::Input;
  static_assert(Config::tile_k == 32);
  using LayoutA = SwizzledRows<Config::tile_k>;
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
    const bool has_nonfinite_b = __syncthreads_or(nonfinite);

    if (has_nonfinite_b) {
#pragma unroll 1
      for (int k = 0; k < Config::tile_k; k += 16) {
        Fragments<Config> fragments;
        fragments.load(smem_a, smem_b, block.m, block.n, k);
        accumulators.multiply(fragments);
      }
    } else {
      multiply_sparse(accumulators, smem_a, smem_b, block);
    }
    __syncthreads();  // all threads have read the tiles; the next ones may overwrite them
  }

  accumulators.store(Epilogue<Config>(parameters, 0), block.tile_m + block.m,
                     block.tile_n + block.n);
}

}  // namespace tilewright
