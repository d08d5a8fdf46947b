// Microbenchmark: reads of one sector in so many bytes, as docs/machine/dram.md explains them.
//
// Neighboring threads read neighboring sectors, 16 bytes of each, which brings the whole sector.
// Each thread has several reads in flight; then all threads go on by as many sectors as they are.
#pragma once
#include "ptx/streaming.cuh"
#include "types.cuh"

namespace tilewright {

// memory: `sectors` sectors, `stride` bytes apart. sums: by thread, the sum of what it has read.
template <class Config>
__device__ __forceinline__ void strided_read_kernel(const uint8_t* memory, uint32_t* sums,
                                                    int sectors, int stride) {
  const int apart = gridDim.x * Config::threads;
  const int thread = blockIdx.x * Config::threads + threadIdx.x;
  uint32_t sum = 0;
  for (int64_t first = thread; first < sectors; first += Config::in_flight * int64_t{apart}) {
    uint32_t words[Config::in_flight][4] = {};
#pragma unroll
    for (int i = 0; i < Config::in_flight; ++i) {
      const int64_t sector = first + i * int64_t{apart};
      if (sector < sectors) load_once(words[i], memory + sector * stride);
    }
#pragma unroll
    for (int i = 0; i < Config::in_flight; ++i) {
      sum += words[i][0] + words[i][1] + words[i][2] + words[i][3];
    }
  }
  sums[thread] = sum;
}

}  // namespace tilewright
