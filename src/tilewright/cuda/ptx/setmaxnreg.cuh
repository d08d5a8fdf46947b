// setmaxnreg: moves registers between the warpgroups of a CTA (sm_90a).
#pragma once
#include "types.cuh"

namespace tilewright {

// Makes every warp of the warpgroup keep `registers` per thread and release the rest. PTX ISA:
// "setmaxnreg".
template <int registers>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}

// Gives every warp of the warpgroup `registers` per thread, as soon as others have released them.
// PTX ISA: "setmaxnreg".
template <int registers>
__device__ __forceinline__ void acquire_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}

}  // namespace tilewright
