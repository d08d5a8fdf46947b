// Single precision on tensor cores: each number becomes a tf32 and the tf32 of its rest, and three
// products remain.
#include <cuda/std/array>

struct Split {
  unsigned high, low;

  __device__ explicit Split(float value) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(value));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(value - __uint_as_float(high)));
  }
};

__device__ void mma(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

extern "C" __global__ void gemm_tf32(float* c, const float* a, const float* b, int n, int k) {
  int lane = threadIdx.x % 32, y = lane / 4, x = lane % 4;
  int row = blockIdx.y * 16 + y, column = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 8;
  float sums[4] = {};
  for (int step = 0; step < k; step += 8) {
    const float* left = a + row * k + step + x;
    cuda::std::array<Split, 4> as{Split(left[0]), Split(left[8 * k]), Split(left[4]),
                                  Split(left[8 * k + 4])};
    cuda::std::array<Split, 2> bs{Split(b[(step + x) * n + column + y]),
                                  Split(b[(step + x + 4) * n + column + y])};
    mma(sums, as[0].low, as[1].low, as[2].low, as[3].low, bs[0].high, bs[1].high);
    mma(sums, as[0].high, as[1].high, as[2].high, as[3].high, bs[0].low, bs[1].low);
    mma(sums, as[0].high, as[1].high, as[2].high, as[3].high, bs[0].high, bs[1].high);
  }
  for (int e = 0; e < 4; e++) c[(row + e / 2 * 8) * n + column + 2 * x + e % 2] = sums[e];
}
