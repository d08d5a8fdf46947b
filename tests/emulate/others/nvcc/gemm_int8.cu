// Eight-bit integers with scales of rows and columns.
#include "byte_gemm.cuh"

struct Int8 {
  static __device__ void add(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
        "%9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

extern "C" __global__ void gemm_int8(float* c, const char* a, const char* b, const float* a_scale,
                                     const float* b_scale, int m, int n, int k) {
  byte_gemm<Int8, int>(c, a, b, a_scale, b_scale, m, n, k);
}
