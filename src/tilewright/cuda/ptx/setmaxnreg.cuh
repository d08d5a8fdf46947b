// Moving registers between the warpgroups of a CTA (sm_90a).
#pragma once
#include "types.cuh"

namespace tilewright {

// Every warp of the warpgroup keeps `registers` per thread and gives back the rest. PTX ISA:
// "setmaxnreg".
template <int registers>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}

// Every warp of the warpgroup gets `registers` per thread, as soon as others gave them back. PTX
// ISA: "setmaxnreg".
template <int registers>
__device__ __forceinline__ void acquire_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}

}  // namespace tilewright
