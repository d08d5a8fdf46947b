// Stores into the SMEM of other CTAs of the cluster, which a barrier of the cluster hands over
// (sm_90).
#pragma once
#include "types.cuh"

namespace tilewright {

// 8 or 16 bytes to an aligned `cluster_address`. PTX ISA: "st", state space .shared::cluster.
__device__ __forceinline__ void store_cluster(uint32_t address, float2 values) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};"
               :
               : "r"(address), "f"(values.x), "f"(values.y)
               : "memory");
}

__device__ __forceinline__ void store_cluster(uint32_t address, float4 values) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w)
               : "memory");
}

// Says that this CTA runs, so that others may store to its SMEM. By all threads, once. PTX ISA:
// "barrier.cluster".
__device__ __forceinline__ void announce_start() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}

// Waits until all CTAs of the cluster run. By all threads, after `announce_start`.
__device__ __forceinline__ void wait_for_starts() {
  asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}

}  // namespace tilewright
