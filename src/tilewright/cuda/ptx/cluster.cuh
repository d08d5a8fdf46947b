// Clusters of CTAs (sm_90).
#pragma once
#include "types.cuh"

namespace tilewright {

// Number of this CTA in its cluster. PTX ISA: "Special registers: %cluster_ctarank".
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The address in CTA number `rank` of the cluster that corresponds to this CTA's SMEM address
// `address`. PTX ISA: "mapa".
__device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// Makes all threads of the cluster meet. Earlier writes are visible to all of them afterwards. PTX
// ISA: "barrier.cluster".
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

}  // namespace tilewright
