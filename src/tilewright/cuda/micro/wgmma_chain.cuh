// Microbenchmark: how many clocks pass from one wgmma to the next while a queue of them is full.
//
// All warpgroups of a CTA multiply the same tiles, 64 rows of A by n columns of B and 128 bytes of
// each along k, again and again. A tile is four wgmmas along k. One round is sixteen wgmmas without
// a branch between them; nothing waits before the last round. The sums tell that all were executed:
// each round adds A B four times.
//
// `image` is what SMEM holds: A, then B, in the layout of their descriptors
// (layout/descriptor.cuh). If A is in registers, its part of the image has rows of 128 bytes in
// order.
#pragma once
#include "layout/descriptor.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
class WgmmaChain {
 public:
  static constexpr int steps = 4;  // wgmmas along k of a tile
  static constexpr int round = 16;

 private:
  static constexpr int n = Config::n;
  using A = WgmmaOperand<Config::a_mn_major, 64, 64>;  // in units of 2 bytes, as descriptors count
  using B = WgmmaOperand<Config::b_mn_major, n, 64>;
  static_assert(Config::smem_bytes == A::bytes + B::bytes, "the image is both tiles");

  uint32_t registers[steps][4];
  uint32_t a, b;  // low words of descriptors
  float sums[n / 2];

  __device__ __forceinline__ static int row() {  // of the thread's first elements
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  }

 public:
  __device__ __forceinline__ WgmmaChain(const uint8_t* image, uint8_t* smem) {
    const uint4* from = reinterpret_cast<const uint4*>(image);
    uint4* to = reinterpret_cast<uint4*>(smem);
    for (int i = threadIdx.x; i < Config::smem_bytes / 16; i += Config::threads) to[i] = from[i];
    fence_proxy_async_shared();
    __syncthreads();
    a = A::low_word(shared_address(smem));
    b = B::low_word(shared_address(smem) + A::bytes);
    if constexpr (Config::a_in_registers) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int byte = (row() + i % 2 * 8) * 128 + step * 32 + i / 2 * 16 + threadIdx.x % 4 * 4;
          registers[step][i] = *reinterpret_cast<const uint32_t*>(image + byte);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sums[i] = 0;
  }

  __device__ __forceinline__ void run(int rounds) {
    wgmma_results(sums);  // else ptxas sets them to 0 behind the fence, and serializes
    wgmma_fence();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
      for (int j = 0; j < round; ++j) multiply(j % steps);
      wgmma_commit();
    }
    wgmma_wait<0>();
    wgmma_results(sums);
  }

  // Each warpgroup stores its (64, n) sums, row by row.
  __device__ __forceinline__ void store(float* out) const {
    out += threadIdx.x / 128 * 64 * n;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      out[(row() + i / 2 % 2 * 8) * n + column] = sums[i];
    }
  }

 private:
  // A's part in wgmma number `step`: four registers, or a descriptor.
  __device__ __forceinline__ decltype(auto) operand_a(int step) const {
    if constexpr (Config::a_in_registers) {
      return (registers[step]);
    } else {
      return A::with_high_word(a + step * A::k_step);
    }
  }

  __device__ __forceinline__ void multiply(int step) {
    Wgmma::mma(sums, operand_a(step), B::with_high_word(b + step * B::k_step), 1);
  }
};

// spans: the first and the last clock of each warpgroup of each CTA. out: the sums of CTA 0.
template <class Config>
__device__ __forceinline__ void wgmma_chain_kernel(const uint8_t* image, float* out, int64_t* spans,
                                                   int rounds) {
  extern __shared__ __align__(1024) uint8_t smem[];
  WgmmaChain<Config> chain(image, smem);
  __syncthreads();
  const int64_t begin = clock64();
  chain.run(rounds);
  const int64_t end = clock64();
  if (threadIdx.x % 128 == 0) {
    int64_t* span = spans + 2 * (blockIdx.x * (Config::threads / 128) + threadIdx.x / 128);
    span[0] = begin;
    span[1] = end;
  }
  if (blockIdx.x == 0) chain.store(out);
}

}  // namespace tilewright
