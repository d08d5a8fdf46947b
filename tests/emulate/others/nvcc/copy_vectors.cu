// y = a * x + y in vectors of four floats, with the rest one by one.
extern "C" __global__ void copy_vectors(float* y, const float* x, float a, int count) {
#ifdef MISALIGNED
  x += 1, count -= 1;  // as a caller does who skips a header
#endif
  int stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < count / 4; i += stride) {
    float4 left = reinterpret_cast<const float4*>(x)[i];  // reported: MISALIGNED
    float4 right = reinterpret_cast<float4*>(y)[i];
    right.x += a * left.x, right.y += a * left.y, right.z += a * left.z, right.w += a * left.w;
    reinterpret_cast<float4*>(y)[i] = right;
  }
  for (int i = count / 4 * 4 + first; i < count; i += stride) y[i] += a * x[i];
}
