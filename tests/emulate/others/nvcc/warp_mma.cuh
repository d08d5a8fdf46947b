// Tiles of half-precision numbers in shared memory, and warps that multiply them with mma.sync.
#pragma once
#include <cuda_fp16.h>

constexpr int WIDTH = 64;  // halves in a row of a tile: 128 bytes, chunks of 16 bytes swizzled

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline int swizzled(int row, int chunk) { return row * WIDTH + (chunk ^ (row & 7)) * 8; }

// Copies 16 bytes, or fills with zeros.
__device__ inline void copy_chunk(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int GROUPS>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

__device__ inline void ldmatrix(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ inline void ldmatrix_transposed(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The fragment of A at (m, k) of a tile with m in rows, and of one with k in rows.
__device__ inline void load_a(unsigned (&a)[4], const __half* tile, int m, int k) {
  int lane = threadIdx.x % 32;
  ldmatrix(a, tile + swizzled(m + lane % 16, k / 8 + lane / 16));
}
__device__ inline void load_a_transposed(unsigned (&a)[4], const __half* tile, int m, int k) {
  int lane = threadIdx.x % 32;
  ldmatrix_transposed(a, tile + swizzled(k + lane % 8 + lane / 16 * 8, m / 8 + lane / 8 % 2));
}

// Two fragments of B, of columns n to n + 15, of a tile with n in rows, and of one with k in rows.
__device__ inline void load_b(unsigned (&b)[4], const __half* tile, int n, int k) {
  int lane = threadIdx.x % 32;
  ldmatrix(b, tile + swizzled(n + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2));
}
__device__ inline void load_b_transposed(unsigned (&b)[4], const __half* tile, int n, int k) {
  int lane = threadIdx.x % 32;
  ldmatrix_transposed(b, tile + swizzled(k + lane % 16, n / 8 + lane / 16));
}

// Copies rows of a row-major matrix, whose rows have `columns` halves, into a tile; outside it,
// zeros.
template <int ROWS, int THREADS>
__device__ inline void copy_tile(__half* tile, const __half* matrix, int row, int column, int rows,
                                 int columns) {
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += THREADS) {
    int y = row + i / 8, x = column + i % 8 * 8;
    bool inside = y < rows && x < columns;
    copy_chunk(tile + swizzled(i / 8, i % 8), inside ? matrix + y * columns + x : matrix, inside);
  }
}
