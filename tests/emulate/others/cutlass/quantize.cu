// Rows become fp8: cutlass::Array, fast conversions and a maximum of a row by functors.
#include <cutlass/array.h>
#include <cutlass/functional.h>
#include <cutlass/numeric_conversion.h>

constexpr int WIDTH = 8;
using Vector = cutlass::Array<float, WIDTH>;
using Codes = cutlass::Array<cutlass::float_e4m3_t, WIDTH>;

extern "C" __global__ void quantize(Codes* codes, float* scales, const Vector* in, int vectors) {
  __shared__ float most[4];
  int row = blockIdx.x * vectors, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float largest = 0;
  cutlass::absolute_value_op<float> absolute;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    Vector values = in[row + i];
    for (int j = 0; j < WIDTH; j++) largest = fmaxf(largest, absolute(values[j]));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  if (lane == 0) most[warp] = largest;
#ifdef SYNC_OF_A_WARP
  __syncwarp();
#else
  __syncthreads();
#endif
  // reported: SYNC_OF_A_WARP
  largest = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
  float scale = exp2f(ceilf(log2f(largest / 448)));
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  cutlass::NumericArrayConverter<cutlass::float_e4m3_t, float, WIDTH> convert;
  cutlass::multiplies<Vector> multiply;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x)
    codes[row + i] = convert(multiply(in[row + i], 1 / scale));
}
