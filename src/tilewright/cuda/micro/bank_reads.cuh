// Microbenchmark: reads of SMEM at addresses that meet its banks in some way, as
// docs/machine/banks.md explains it.
//
// Each warp makes Config::loads reads at a time that do not wait for each other. All warps of an SM
// together keep its banks busy, so the time of a read is that of its passes. Each read is a row of
// all banks behind the one before: it meets the same banks, and ptxas, which makes one of equal
// reads, cannot join them.
#pragma once
#include "ptx/ldmatrix.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// The sum of the words that a thread gets; all threads of a warp together get what the lanes ask.
template <class Config>
__device__ __forceinline__ uint32_t read_words(uint32_t address) {
  constexpr int loads = Config::loads, row_bytes = 128;
  uint32_t words[loads][4] = {};
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    if constexpr (Config::matrices) {
      ldmatrix_x4<false>(words[i], address + i * row_bytes);
    } else if constexpr (Config::width == 16) {
      load_shared(words[i], address + i * row_bytes);
    } else if constexpr (Config::width == 8) {
      float2 values;
      load_shared(values, address + i * row_bytes);
      words[i][0] = __float_as_uint(values.x);
      words[i][1] = __float_as_uint(values.y);
    } else {
      float value;
      load_shared(value, address + i * row_bytes);
      words[i][0] = __float_as_uint(value);
    }
  }
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < loads; ++i) sum += words[i][0] + words[i][1] + words[i][2] + words[i][3];
  return sum;
}

// offsets: by lane, its first address in bytes. memory: the words of SMEM. sums: by thread of each
// CTA, the sum of what it has read. spans: the first and the last clock of each warp of each CTA.
// Every other round begins a row later.
template <class Config>
__device__ __forceinline__ void bank_reads_kernel(const uint32_t* offsets, const uint32_t* memory,
                                                  uint32_t* sums, int64_t* spans, int rounds) {
  constexpr int threads = Config::threads, words = Config::bytes / 4;
  static_assert(Config::width == 16 || !Config::matrices);
  __shared__ __align__(128) uint32_t shared[words];
  for (int i = threadIdx.x; i < words; i += threads) shared[i] = memory[i];
  __syncthreads();
  const uint32_t address = shared_address(shared) + offsets[threadIdx.x % 32];
  uint32_t sum = 0;
  const int64_t begin = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    sum += read_words<Config>(address + round % 2 * 128);
  }
  const int64_t end = clock64();
  sums[blockIdx.x * threads + threadIdx.x] = sum;
  if (threadIdx.x % 32 == 0) {
    int64_t* span = spans + 2 * (blockIdx.x * (threads / 32) + threadIdx.x / 32);
    span[0] = begin;
    span[1] = end;
  }
}

}  // namespace tilewright
