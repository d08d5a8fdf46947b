// The first step of every epilogue.
#pragma once

namespace tilewright {

// alpha times a sum. Zeros that pad a sum may change the sign of a sum that is zero, so that zeros
// get one sign here.
__device__ __forceinline__ float scaled(float alpha, float sum) {
  return __fmaf_rn(alpha, sum, 0.0f);
}

}  // namespace tilewright
