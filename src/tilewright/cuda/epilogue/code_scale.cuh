// The scales of codes of 8 bits, and where a kernel that quantizes finds and leaves them.
#pragma once
#include "parameters.cuh"
#include "types.cuh"

namespace tilewright {

// `a` is x, m its rows and n its columns. `transposed_codes` and `transposed_scale` are those of x
// transposed; scales of tiles are in `scale`, whichever codes are written. `maxima`: fp32 bits, of
// each row, then of each column, or one.
struct QuantizeParameters : GemmParameters {
  MatrixParameters codes, scale, transposed_codes, transposed_scale;
  uint32_t* maxima;
};

// Where the scales come from: the tile, `maxima`, or the caller.
enum class ScaleSource { tile, maxima, given };

// The scale of elements whose largest magnitude is this: 1 if all are zero, and no less than the
// least normal number, whose reciprocal is finite.
template <class Config>
__device__ __forceinline__ float scale_of(float largest) {
  if (largest == 0.0f) return 1.0f;
  const float scale = fmaxf(largest / static_cast<float>(Config::Codes::largest), 0x1p-126f);
  if constexpr (!Config::power_of_two) return scale;
  return __uint_as_float(__float_as_uint(scale) + 0x7FFFFF & 0xFF800000);
}

}  // namespace tilewright
