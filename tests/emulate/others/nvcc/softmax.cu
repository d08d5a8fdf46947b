// The softmax of half-precision rows: one warp a row, one pass for maximum and sum, eight elements
// a load.
#include <cuda_fp16.h>

extern "C" __global__ void softmax(__half* out, const __half* in, int rows, int columns) {
  int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;
  float most = -INFINITY, sum = 0;
  for (int i = 8 * lane; i < columns; i += 256) {
    uint4 loaded = *reinterpret_cast<const uint4*>(in + row * columns + i);
    const __half2* pairs = reinterpret_cast<const __half2*>(&loaded);
    float before = most;
    for (int j = 0; j < 4; j++)
      most = fmaxf(most, fmaxf(__low2float(pairs[j]), __high2float(pairs[j])));
    sum *= __expf(before - most);
    for (int j = 0; j < 4; j++)
      sum += __expf(__low2float(pairs[j]) - most) + __expf(__high2float(pairs[j]) - most);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    float other = __shfl_xor_sync(~0u, most, lanes), larger = fmaxf(most, other);
    float others = __shfl_xor_sync(~0u, sum, lanes);
    sum = (most == larger ? sum : sum * __expf(most - larger)) +
          (other == larger ? others : others * __expf(other - larger));
    most = larger;
  }
  for (int i = 8 * lane; i < columns; i += 256) {
    uint4 loaded = *reinterpret_cast<const uint4*>(in + row * columns + i);
    __half2* pairs = reinterpret_cast<__half2*>(&loaded);
    for (int j = 0; j < 4; j++) {
      float2 both = __half22float2(pairs[j]);
      pairs[j] = __floats2half2_rn(__expf(both.x - most) / sum, __expf(both.y - most) / sum);
    }
    *reinterpret_cast<uint4*>(out + row * columns + i) = loaded;
  }
}
