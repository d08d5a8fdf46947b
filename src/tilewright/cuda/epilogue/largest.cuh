// The largest magnitude of all results, an output of expressions.
#pragma once
#include "parameters.cuh"
#include "ptx/maximum.cuh"
#include "types.cuh"

namespace tilewright {

// The largest magnitude of a thread's results, which goes into an output that is 0 at first when
// the thread is done. Numbers that are not negative are in the order of their bits, and NaN comes
// after all others.
class Largest {
  uint32_t* const place;
  float found = 0.0f;

 public:
  __device__ __forceinline__ explicit Largest(const MatrixParameters* matrix)
      : place(static_cast<uint32_t*>(matrix->pointer)) {}

  __device__ __forceinline__ void see(float value) { found = maximum_or_nan(found, fabsf(value)); }

  // What has been read may have grown since, but never shrinks.
  __device__ __forceinline__ ~Largest() {
    const uint32_t bits = __float_as_uint(found);
    if (bits == 0) return;
    if (bits > *static_cast<volatile const uint32_t*>(place)) atomicMax(place, bits);
  }
};

// Of a row, if it exists.
struct MaximumRow {
  static __device__ constexpr int count() { return 1; }
  using Of = Largest;
  Largest& largest;
  const bool exists;
  mutable float found = 0.0f;

  __device__ __forceinline__ MaximumRow(Largest& of_thread, bool row_exists)
      : largest(of_thread), exists(row_exists) {}

  __device__ __forceinline__ void see(float value) const {
    found = maximum_or_nan(found, fabsf(value));
  }

  __device__ __forceinline__ ~MaximumRow() {
    if (exists) largest.see(found);
  }
};

struct NoLargest {
  __device__ __forceinline__ explicit NoLargest(const MatrixParameters*) {}
};

struct NoMaximum {
  static __device__ constexpr int count() { return 0; }
  using Of = NoLargest;
  __device__ __forceinline__ NoMaximum(NoLargest&, bool) {}
};

}  // namespace tilewright
