// Asynchronous copies GMEM -> SMEM by single threads (sm_80 and later), in groups.
#pragma once
#include "types.cuh"

namespace tilewright {

// Copies `bytes` (4, 8 or 16) bytes. Only the first `valid_bytes` are read; the rest becomes zero.
// Copies of 16 bytes bypass L1. PTX ISA: "cp.async".
template <int bytes>
__device__ __forceinline__ void cp_async(uint32_t destination, const void* source,
                                         int valid_bytes) {
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(destination), "l"(__cvta_generic_to_global(source)), "r"(valid_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(destination), "l"(__cvta_generic_to_global(source)), "n"(bytes),
                   "r"(valid_bytes)
                 : "memory");
  }
}

// Copies `bytes` (4 or 8) bytes, or writes as many zeros and reads nothing: a third of the machine
// instructions of the copy above. PTX ISA: "cp.async", ignore-src.
template <int bytes>
__device__ __forceinline__ void cp_async_or_zeros(uint32_t destination, const void* source,
                                                  bool zeros) {
  asm volatile(
      "{ .reg .pred zeros; setp.ne.u32 zeros, %3, 0;\n"
      "cp.async.ca.shared.global [%0], [%1], %2, zeros; }"
      :
      : "r"(destination), "l"(__cvta_generic_to_global(source)), "n"(bytes), "r"(uint32_t(zeros))
      : "memory");
}

// Closes the group of this thread's copies since the last group. PTX ISA: "cp.async.commit_group".
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}

// Waits until at most `pending` of this thread's newest groups are under way. PTX ISA:
// "cp.async.wait_group".
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

// Arrives once at the mbarrier when this thread's copies so far are there, which counts it
// among its arrivals. PTX ISA: "cp.async.mbarrier.arrive".
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" : : "r"(barrier) : "memory");
}

}  // namespace tilewright
