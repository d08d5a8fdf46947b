// The functions of expressions that neither C++ nor activation.cuh has; expression/tree.py names
// them.
#pragma once
#include "epilogue/activation.cuh"
#include "ptx/approximate.cuh"
#include "ptx/full_range.cuh"

namespace tilewright {

struct Sigmoid {
  static __device__ __forceinline__ float apply(float x) {
    return reciprocal_approx(__fadd_rn(1.0f, exp2_approx(__fmul_rn(-1.44269504f, x))));
  }
};

// Of two numbers of which one is NaN, NaN: as NumPy's and torch's minimum, unlike C++'s.
__device__ __forceinline__ float lesser(float x, float y) { return x < y || x != x ? x : y; }

__device__ __forceinline__ float greater(float x, float y) { return x > y || x != x ? x : y; }

}  // namespace tilewright
