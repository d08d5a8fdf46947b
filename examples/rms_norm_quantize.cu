// RMSNorm and quantization in one pass: y = x / sqrt(mean(x^2) + epsilon) * weight, row by row, as
// codes of fp8_e4m3 and the scale of each row, so that y is about code * scale.
//
// One CTA per row of COLUMNS elements of bf16, which stay in registers: x is read once, and y is
// never written. COLUMNS is a multiple of 8 and a macro, so that loops unroll.

constexpr int threads = 128, pieces = COLUMNS / 8, own = (pieces + threads - 1) / threads;

struct Sum {
  static __device__ float of(float a, float b) { return a + b; }
};
struct Max {
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

// Over all threads; each use has shared memory of its own, so that no use waits for another.
template <class Operation>
__device__ float combined(float value) {
  __shared__ float of_warp[threads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = Operation::of(value, __shfl_xor_sync(~0u, value, lanes));
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < threads / 32; ++warp) value = Operation::of(value, of_warp[warp]);
  return value;
}

// The eight bf16 of a piece.
__device__ void unpack(float (&values)[8], uint4 piece) {
  const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000);
  }
}

__device__ unsigned two_codes(float low, float high) {
  unsigned short codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

extern "C" __global__ void __launch_bounds__(threads)
    rms_norm_quantize(const uint4* x, const uint4* weight, uint2* codes, float* scale,
                      float epsilon) {
  const long long row = static_cast<long long>(blockIdx.x) * pieces;
  float y[own][8], squares = 0, largest = 0;
  for (int i = 0; i < own; ++i) {
    const int piece = i * threads + threadIdx.x;
    if (piece >= pieces) break;
    unpack(y[i], x[row + piece]);
    for (int j = 0; j < 8; ++j) squares += y[i][j] * y[i][j];
  }
  const float root = rsqrtf(combined<Sum>(squares) / COLUMNS + epsilon);
  for (int i = 0; i < own; ++i) {
    const int piece = i * threads + threadIdx.x;
    if (piece >= pieces) break;
    float factors[8];
    unpack(factors, weight[piece]);
    for (int j = 0; j < 8; ++j) {
      y[i][j] *= root * factors[j];
      largest = fmaxf(largest, fabsf(y[i][j]));
    }
  }
  largest = combined<Max>(largest);
  const float of_row = largest == 0 ? 1 : largest / 448;  // the largest number of fp8_e4m3
  if (threadIdx.x == 0) scale[blockIdx.x] = of_row;
  for (int i = 0; i < own; ++i) {
    const int piece = i * threads + threadIdx.x;
    if (piece >= pieces) break;
    for (int j = 0; j < 8; ++j) y[i][j] /= of_row;
    codes[row + piece] =
        make_uint2(two_codes(y[i][0], y[i][1]) | two_codes(y[i][2], y[i][3]) << 16,
                   two_codes(y[i][4], y[i][5]) | two_codes(y[i][6], y[i][7]) << 16);
  }
}
