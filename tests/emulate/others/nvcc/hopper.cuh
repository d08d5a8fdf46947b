// TMA by cuda::ptx, and wgmma as inline PTX: tiles have rows of 64 halves, swizzled over 128 bytes.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>

#include <cuda/ptx>

namespace ptx = cuda::ptx;

constexpr int WIDTH = 64;  // halves in a row of a tile

__device__ inline void wait(uint64_t* barrier, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

__device__ inline void wait_of_cluster(uint64_t* barrier, unsigned parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, barrier, parity)) {
  }
}

__device__ inline void expect(uint64_t* barrier, int bytes) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier,
                                 bytes);
}

__device__ inline void load_box(void* tile, const CUtensorMap* map, int x, int y,
                                uint64_t* barrier) {
  const int at[2] = {x, y};
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, at, barrier);
}

// A place in a ring of slots.
struct Place {
  int slot = 0;
  unsigned parity = 0;

  template <int SLOTS>
  __device__ void advance() {
    if (++slot == SLOTS) slot = 0, parity ^= 1;
  }
};

__device__ inline uint64_t described(const __half* tile) {
  uint64_t address = __cvta_generic_to_shared(tile);
  return (address & 0x3ffff) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all multiplications; the compiler may read the sums only after it.
__device__ inline void wgmma_wait(float (&sums)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 32; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

// Sums (64, 64) of A (64, 16) and B (64, 16), added to the old ones if there are any.
__device__ inline void wgmma(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"((int)add)
      : "memory");
}

// Adds the product of a step of k, of tiles with 64 rows.
__device__ inline void multiply_step(float (&sums)[32], const __half* a, const __half* b,
                                     bool first) {
#ifndef NO_WGMMA_FENCE
  wgmma_fence();
#endif
#pragma unroll
  for (int k = 0; k < WIDTH; k += 16)
    wgmma(sums, described(a + k), described(b + k), !first || k > 0);
  wgmma_commit();
}

// Calls f(row, column, sum, sum of the next column) for the sums of this thread.
template <typename F>
__device__ void each_pair(float (&sums)[32], F f) {
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (int i = 0; i < 32; i += 2)
    f(16 * warp + lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2, sums[i], sums[i + 1]);
}
