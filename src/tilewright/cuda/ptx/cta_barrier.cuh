// Barriers of a CTA whose participants arrive without waiting.
#pragma once
#include "types.cuh"

namespace tilewright {

// A whole warp arrives at barrier `id`, of `threads` threads, and goes on. PTX ISA: "barrier.cta".
template <int id, int threads>
__device__ __forceinline__ void cta_arrive() {
  asm volatile("bar.arrive %0, %1;" : : "n"(id), "n"(threads) : "memory");
}

// A whole warp arrives and waits for all. PTX ISA: "barrier.cta".
template <int id, int threads>
__device__ __forceinline__ void cta_sync() {
  asm volatile("bar.sync %0, %1;" : : "n"(id), "n"(threads) : "memory");
}

// The same at a barrier that is chosen at run time.
template <int threads>
__device__ __forceinline__ void cta_arrive_at(int id) {
  asm volatile("bar.arrive %0, %1;" : : "r"(id), "n"(threads) : "memory");
}

template <int threads>
__device__ __forceinline__ void cta_sync_at(int id) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "n"(threads) : "memory");
}

}  // namespace tilewright
