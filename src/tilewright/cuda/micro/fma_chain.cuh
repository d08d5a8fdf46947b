// Microbenchmark: chains of dependent multiply-adds on the CUDA cores, as docs/machine/latency.md
// explains them.
//
// Each thread has Config::chains numbers, and one step multiplies and adds each of them once. A
// step of a chain needs the one before; the chains do not need each other. All warps do the same.
#pragma once
#include "types.cuh"

namespace tilewright {

// factors: by what is multiplied, and what is added; memory, so that they are no constants. spans:
// the first and the last clock of each warp of each CTA. out: the numbers of CTA 0, by thread.
template <class Config>
__device__ __forceinline__ void fma_chain_kernel(const float* factors, float* out, int64_t* spans,
                                                 int rounds) {
  constexpr int chains = Config::chains, steps = Config::steps;
  const float factor = factors[0], addend = factors[1];
  float values[chains];
#pragma unroll
  for (int i = 0; i < chains; ++i) values[i] = static_cast<float>(i);
  __syncthreads();
  const int64_t begin = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int i = 0; i < chains; ++i) {
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(values[i]) : "f"(factor), "f"(addend));
      }
    }
  }
  const int64_t end = clock64();
  if (threadIdx.x % 32 == 0) {
    int64_t* span = spans + 2 * (blockIdx.x * (Config::threads / 32) + threadIdx.x / 32);
    span[0] = begin;
    span[1] = end;
  }
  if (blockIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < chains; ++i) out[threadIdx.x * chains + i] = values[i];
  }
}

}  // namespace tilewright
