// fp8 (e4m3) with scales of rows and columns.
#include "byte_gemm.cuh"

struct E4m3 {
  static __device__ void add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

extern "C" __global__ void gemm_fp8(float* c, const char* a, const char* b, const float* a_scale,
                                    const float* b_scale, int m, int n, int k) {
  byte_gemm<E4m3, float>(c, a, b, a_scale, b_scale, m, n, k);
}
