// Functions of CUDA's library, with their slow paths, and a table in constant memory.
__constant__ float coefficients[4] = {1, -0.5f, 0.25f, -0.125f};

__device__ __noinline__ float polynomial(float x) {
  float sum = 0;
  for (int i = 3; i >= 0; i--) sum = sum * x + coefficients[i];
  return sum;
}

extern "C" __global__ void functions(double* doubles, float* floats, const double* in, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  double x = in[i];
  float y = x;
  double* d = doubles + 8 * i;
  d[0] = sin(x), d[1] = exp(x / 8), d[2] = log(fabs(x) + 0.5), d[3] = pow(fabs(x), 1.7);
  d[4] = erf(x / 4), d[5] = tanh(x), d[6] = atan2(x, 2.0), d[7] = fmod(x, 0.7);
  float* f = floats + 8 * i;
  f[0] = sinf(1000 * y), f[1] = expf(y / 4), f[2] = log1pf(fabsf(y)), f[3] = powf(fabsf(y), 0.3f);
  f[4] = erff(y / 4), f[5] = cbrtf(y), f[6] = polynomial(y), f[7] = rhypotf(y, 3.f);
}
