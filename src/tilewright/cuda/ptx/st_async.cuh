// Stores into the SMEM of other CTAs of the cluster that an mbarrier there counts (sm_90).
#pragma once
#include "types.cuh"

namespace tilewright {

// 16 bytes to an aligned `cluster_address`; they count towards the transaction of `barrier`, in the
// SMEM of the same CTA. PTX ISA: "st.async".
__device__ __forceinline__ void store_async(uint32_t address, float4 values, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
      :
      : "r"(address), "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w), "r"(barrier)
      : "memory");
}

}  // namespace tilewright
