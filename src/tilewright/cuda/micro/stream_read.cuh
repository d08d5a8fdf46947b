// Microbenchmark: a plain read of memory, as wide and as deep as it goes, and nothing else. What
// reads the same bytes and also computes cannot be expected to be quicker.
//
// Threads read 16 bytes each, `in_flight` of them before they use one, a grid apart.
#pragma once
#include "parameters.cuh"
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

// The n * k elements of B, which lie packed in memory.
template <class Config>
__device__ __forceinline__ void stream_read_kernel(const GemmParameters& parameters) {
  const int64_t chunks = static_cast<int64_t>(parameters.n) * parameters.k / Config::elements;
  const int64_t apart = static_cast<int64_t>(gridDim.x) * Config::threads;
  const auto* const b = static_cast<const uint8_t*>(parameters.b.pointer);
  uint32_t used = 0;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * Config::threads + threadIdx.x;
       first < chunks; first += Config::in_flight * apart) {
    uint32_t words[Config::in_flight][4] = {};
#pragma unroll
    for (int i = 0; i < Config::in_flight; ++i) {
      if (first + i * apart < chunks) load_once(words[i], b + (first + i * apart) * 16);
    }
#pragma unroll
    for (int i = 0; i < Config::in_flight; ++i) {
      used ^= words[i][0] ^ words[i][1] ^ words[i][2] ^ words[i][3];
    }
  }
  // Hardly ever; but the compiler must not know that nothing is used.
  if (used == 0x9E3779B9) *static_cast<uint32_t*>(parameters.out.pointer) = used;
}

}  // namespace tilewright
