// mbarriers in SMEM (sm_90): arrivals, transactions and waits. docs/memory-rules.md says which
// scopes are used where.
#pragma once
#include "types.cuh"

namespace tilewright {

// Turns the 8 bytes at `barrier` into a barrier whose phases take `arrivals` arrivals. PTX ISA:
// "mbarrier.init".
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(barrier), "r"(arrivals)
               : "memory");
}

// Publishes this thread's initializations before other threads of the cluster use the barriers. PTX
// ISA: "membar / fence".
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

// Arrives once and announces `bytes` from bulk copies in this phase. PTX ISA: "mbarrier.arrive".
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives once at a barrier of this CTA. PTX ISA: "mbarrier.arrive".
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// Arrives once at a barrier of any CTA of the cluster, given its `cluster_address`. PTX ISA:
// "mbarrier.arrive".
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// Waits until the phase of this parity is complete; acquires at CTA scope. PTX ISA:
// "mbarrier.try_wait".
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again;\n"
      "}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
}

// Does the same, but acquires at cluster scope.
__device__ __forceinline__ void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again;\n"
      "}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
}

}  // namespace tilewright
