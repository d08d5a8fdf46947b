// wmma: tensor cores, used by one warp (bf16 from sm_80 on). The order of a fragment's elements is
// not documented: fragments are loaded, multiplied and stored as wholes.
//
// Matrices are row-major, 16x16, with `stride` elements from row to row. Rows start on 16 bytes,
// the first one on 32, as the CUDA programming guide asks of load_matrix_sync. PTX ISA, "Matrix
// storage for WMMA", asks for 32 bytes at every row of fp16. The loads that ptxas generates need
// less: rows of 16 bytes from SMEM (ldmatrix), words or halves of words from GMEM.
#pragma once
#include "types.cuh"

namespace tilewright {

// A lane's part of A or B. fp16 fragments have twice as many registers as they need.
template <class Input>
struct WmmaFragment;

template <>
struct WmmaFragment<fp16> {
  uint32_t words[8];
};

template <>
struct WmmaFragment<bf16> {
  uint32_t words[4];
};

// A lane's part of C or D.
struct WmmaAccumulator {
  float values[8] = {};
};

// A from GMEM. PTX ISA: "wmma.load".
__device__ __forceinline__ void wmma_load_a(WmmaFragment<fp16>& a, const fp16* rows, int stride) {
  asm volatile(
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(a.words[0]), "=r"(a.words[1]), "=r"(a.words[2]), "=r"(a.words[3]), "=r"(a.words[4]),
        "=r"(a.words[5]), "=r"(a.words[6]), "=r"(a.words[7])
      : "l"(__cvta_generic_to_global(rows)), "r"(stride)
      : "memory");
}

__device__ __forceinline__ void wmma_load_a(WmmaFragment<bf16>& a, const bf16* rows, int stride) {
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(a.words[0]), "=r"(a.words[1]), "=r"(a.words[2]), "=r"(a.words[3])
               : "l"(__cvta_generic_to_global(rows)), "r"(stride)
               : "memory");
}

// A from SMEM, by its address there.
__device__ __forceinline__ void wmma_load_a(WmmaFragment<fp16>& a, uint32_t rows, int stride) {
  asm volatile(
      "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(a.words[0]), "=r"(a.words[1]), "=r"(a.words[2]), "=r"(a.words[3]), "=r"(a.words[4]),
        "=r"(a.words[5]), "=r"(a.words[6]), "=r"(a.words[7])
      : "r"(rows), "r"(stride)
      : "memory");
}

__device__ __forceinline__ void wmma_load_a(WmmaFragment<bf16>& a, uint32_t rows, int stride) {
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(a.words[0]), "=r"(a.words[1]), "=r"(a.words[2]), "=r"(a.words[3])
               : "r"(rows), "r"(stride)
               : "memory");
}

// B from GMEM.
__device__ __forceinline__ void wmma_load_b(WmmaFragment<fp16>& b, const fp16* rows, int stride) {
  asm volatile(
      "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(b.words[0]), "=r"(b.words[1]), "=r"(b.words[2]), "=r"(b.words[3]), "=r"(b.words[4]),
        "=r"(b.words[5]), "=r"(b.words[6]), "=r"(b.words[7])
      : "l"(__cvta_generic_to_global(rows)), "r"(stride)
      : "memory");
}

__device__ __forceinline__ void wmma_load_b(WmmaFragment<bf16>& b, const bf16* rows, int stride) {
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.global.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(b.words[0]), "=r"(b.words[1]), "=r"(b.words[2]), "=r"(b.words[3])
               : "l"(__cvta_generic_to_global(rows)), "r"(stride)
               : "memory");
}

// B from SMEM.
__device__ __forceinline__ void wmma_load_b(WmmaFragment<fp16>& b, uint32_t rows, int stride) {
  asm volatile(
      "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(b.words[0]), "=r"(b.words[1]), "=r"(b.words[2]), "=r"(b.words[3]), "=r"(b.words[4]),
        "=r"(b.words[5]), "=r"(b.words[6]), "=r"(b.words[7])
      : "r"(rows), "r"(stride)
      : "memory");
}

__device__ __forceinline__ void wmma_load_b(WmmaFragment<bf16>& b, uint32_t rows, int stride) {
  asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(b.words[0]), "=r"(b.words[1]), "=r"(b.words[2]), "=r"(b.words[3])
               : "r"(rows), "r"(stride)
               : "memory");
}

// D += A B, with fp32 accumulation. PTX ISA: "wmma.mma".
__device__ __forceinline__ void wmma_multiply(WmmaAccumulator& d, const WmmaFragment<fp16>& a,
                                              const WmmaFragment<fp16>& b) {
  asm("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d.values[0]), "+f"(d.values[1]), "+f"(d.values[2]), "+f"(d.values[3]),
        "+f"(d.values[4]), "+f"(d.values[5]), "+f"(d.values[6]), "+f"(d.values[7])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(a.words[4]),
        "r"(a.words[5]), "r"(a.words[6]), "r"(a.words[7]), "r"(b.words[0]), "r"(b.words[1]),
        "r"(b.words[2]), "r"(b.words[3]), "r"(b.words[4]), "r"(b.words[5]), "r"(b.words[6]),
        "r"(b.words[7]));
}

__device__ __forceinline__ void wmma_multiply(WmmaAccumulator& d, const WmmaFragment<bf16>& a,
                                              const WmmaFragment<bf16>& b) {
  asm("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d.values[0]), "+f"(d.values[1]), "+f"(d.values[2]), "+f"(d.values[3]),
        "+f"(d.values[4]), "+f"(d.values[5]), "+f"(d.values[6]), "+f"(d.values[7])
      : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
        "r"(b.words[1]), "r"(b.words[2]), "r"(b.words[3]));
}

// Stores D to SMEM, where its rows start on 32 bytes. PTX ISA: "wmma.store".
__device__ __forceinline__ void wmma_store(uint32_t rows, const WmmaAccumulator& d, int stride) {
  asm volatile(
      "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, "
      "%9;"
      :
      : "r"(rows), "f"(d.values[0]), "f"(d.values[1]), "f"(d.values[2]), "f"(d.values[3]),
        "f"(d.values[4]), "f"(d.values[5]), "f"(d.values[6]), "f"(d.values[7]), "r"(stride)
      : "memory");
}

}  // namespace tilewright
