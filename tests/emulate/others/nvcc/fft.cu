// A Fourier transform of 256 points for each block, radix 2, between two halves of shared memory
// (Stockham).
extern "C" __global__ void fft(float2* out, const float2* in) {
  constexpr int POINTS = 256;
  __shared__ float2 plane[2][POINTS];
  int t = threadIdx.x, from = 0;
  for (int i = t; i < POINTS; i += POINTS / 2) plane[0][i] = in[blockIdx.x * POINTS + i];
  for (int half = 1; half < POINTS; half *= 2, from ^= 1) {
#ifndef NO_BARRIER
    __syncthreads();
#endif
    int k = t % half;
    float sine, cosine;
    sincospif(-static_cast<float>(k) / half, &sine, &cosine);
    float2 a = plane[from][t], b = plane[from][t + POINTS / 2];  // reported: NO_BARRIER
    float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    int to = (t - k) * 2 + k;
    plane[from ^ 1][to] = make_float2(a.x + turned.x, a.y + turned.y);
    plane[from ^ 1][to + half] = make_float2(a.x - turned.x, a.y - turned.y);
  }
  __syncthreads();
  for (int i = t; i < POINTS; i += POINTS / 2) out[blockIdx.x * POINTS + i] = plane[from][i];
}
