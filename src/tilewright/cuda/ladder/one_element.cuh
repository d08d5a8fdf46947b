// One thread makes one element of out: a row of A times a column of B, straight from GMEM.
#pragma once
#include "epilogue/epilogue.cuh"
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// Makes element (m, n), unless it lies outside of out.
template <class Config>
__device__ __forceinline__ void multiply_one_element(const GemmParameters& parameters, int m,
                                                     int n) {
  if (m >= parameters.m || n >= parameters.n) return;

  const int64_t a_stride = parameters.a.row_stride, b_stride = parameters.b.row_stride;
  const float* a = static_cast<const float*>(parameters.a.pointer) + m * a_stride;
  const float* b = static_cast<const float*>(parameters.b.pointer) + n;
  float sum = 0.0f;
  for (int k = 0; k < parameters.k; ++k) sum = fmaf(a[k], b[k * b_stride], sum);

  Epilogue<Config>(parameters, 0).at_row(m).store(sum, n);
}

}  // namespace tilewright
