// fp8 by wgmma with scales for 128 numbers of k: sums of a step are scaled and added to those of
// the steps before.
#include "hopper.cuh"

constexpr int STAGES = 2, STEP = 128;

struct Shared {
  unsigned char a[STAGES][64 * STEP], b[STAGES][64 * STEP];
  uint64_t full[STAGES];
};

__device__ void wgmma_e4m3(float (&d)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, "
      "add, 1, 1;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"((int)add)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    gemm_fp8_blocks(float* c, const __grid_constant__ CUtensorMap a_map,
                    const __grid_constant__ CUtensorMap b_map, const float* a_scale,
                    const float* b_scale, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / STEP;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; slot++) ptx::mbarrier_init(&shared.full[slot], 1);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  auto fetch = [&](int step) {
    if (threadIdx.x > 0 || step >= steps) return;
    int slot = step % STAGES;
    expect(&shared.full[slot], sizeof(shared.a[0]) + sizeof(shared.b[0]));
    load_box(shared.a[slot], &a_map, step * STEP, row, &shared.full[slot]);
    load_box(shared.b[slot], &b_map, step * STEP, column, &shared.full[slot]);
  };
  float total[32] = {};
  fetch(0);
  for (int step = 0; step < steps; step++) {
    fetch(step + 1);
    int slot = step % STAGES, y = row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    wait(&shared.full[slot], step / STAGES % 2);
    float sums[32];
    wgmma_fence();
#pragma unroll
    for (int at = 0; at < STEP; at += 32)
      wgmma_e4m3(sums, described(reinterpret_cast<__half*>(shared.a[slot] + at)),
                 described(reinterpret_cast<__half*>(shared.b[slot] + at)), at > 0);
    wgmma_commit();
    float right = b_scale[column / 64 * steps + step];
    float scale[2] = {a_scale[y * steps + step] * right, a_scale[(y + 8) * steps + step] * right};
#ifdef NO_WAIT
#pragma unroll
    for (int i = 0; i < 32; i++) total[i] += scale[i / 2 % 2] * sums[i];  // reported: NO_WAIT
    wgmma_wait(sums);
#else
    wgmma_wait(sums);
#pragma unroll
    for (int i = 0; i < 32; i++) total[i] += scale[i / 2 % 2] * sums[i];
#endif
    __syncthreads();
  }
  each_pair(total, [&](int y, int x, float left, float right) {
    *reinterpret_cast<float2*>(c + (row + y) * n + column + x) = make_float2(left, right);
  });
}
