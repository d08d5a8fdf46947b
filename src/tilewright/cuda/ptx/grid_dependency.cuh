// A grid that starts before the one it depends on has ended: programmatic dependent launch (sm_90).
// Without the launch attribute, both are without effect, and before sm_90 they do nothing.
#pragma once
#include "types.cuh"

namespace tilewright {

// Waits until the grids that this one depends on have ended; what they wrote is then visible to
// this grid. PTX ISA: "griddepcontrol".
__device__ __forceinline__ void wait_for_earlier_grids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

// Lets the next grid start, once every CTA of this one has said so or ended. PTX ISA:
// "griddepcontrol".
__device__ __forceinline__ void launch_next_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

}  // namespace tilewright
