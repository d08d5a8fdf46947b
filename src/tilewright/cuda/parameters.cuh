// The arguments that every GEMM kernel takes. kernels/parameters.py has the same structure in
// Python, and each translation unit asserts its size.
#pragma once
#include "types.cuh"

namespace tilewright {

constexpr int max_batch_dims = 4;

// Strides count elements; zero and negative ones are allowed.
struct MatrixParameters {
  void* pointer;  // element (0, 0) of the first batch
  int64_t row_stride;
  int64_t column_stride;
  int64_t batch_strides[max_batch_dims];
};

struct GemmParameters {
  MatrixParameters a;     // (m, k)
  MatrixParameters b;     // (k, n)
  MatrixParameters c;     // (m, n)
  MatrixParameters bias;  // (m, n), broadcast dimensions with stride 0
  MatrixParameters out;   // (m, n)
  int32_t m, n, k;
  int32_t batch_count;
  int32_t batch_shape[max_batch_dims];  // outermost first; unused trailing entries are 1
  float alpha, beta;
  int32_t group_m;   // of `grouped_tile`
  int32_t prefetch;  // wgmma: k-blocks beyond the ring, gemv: CTAs whose first loads go to L2 ahead
};

// The number of elements from the first batch of `matrix` to batch number `batch`.
__device__ __forceinline__ int64_t batch_offset(const GemmParameters& parameters,
                                                const MatrixParameters& matrix, int batch) {
  if (batch == 0) return 0;  // single products need no divisions
  int64_t offset = 0;
#pragma unroll
  for (int dim = max_batch_dims - 1; dim >= 0; --dim) {
    const int extent = parameters.batch_shape[dim];
    offset += (batch % extent) * matrix.batch_strides[dim];
    batch /= extent;
  }
  return offset;
}

// Whether all batches of `matrix` are the same memory.
__device__ __forceinline__ bool is_broadcast(const GemmParameters& parameters,
                                             const MatrixParameters& matrix) {
  bool result = true;
#pragma unroll
  for (int dim = 0; dim < max_batch_dims; ++dim) {
    result = result && (parameters.batch_shape[dim] == 1 || matrix.batch_strides[dim] == 0);
  }
  return result;
}

}  // namespace tilewright
