// Attention by wgmma: a thread loads keys and values by TMA; weights stay in registers as the left
// side of a product.
#include "hopper.cuh"

constexpr int TILE = 64, STAGES = 2;

struct Shared {
  __half q[TILE * WIDTH], k[STAGES][TILE * WIDTH], v[STAGES][TILE * WIDTH];
  uint64_t q_full, k_full[STAGES], v_full[STAGES], empty[STAGES];
};

// Sums (64, 64) += A (64, 16) in registers times B (16, 64), whose rows are those of a tile.
__device__ void wgmma_registers(float (&d)[32], const unsigned (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, "
      "%34, %35}, %36, 1, 1, 1, 1;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(160)
    attention_wgmma(float* out, const __grid_constant__ CUtensorMap q_map,
                    const __grid_constant__ CUtensorMap k_map,
                    const __grid_constant__ CUtensorMap v_map, int length, float scale) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  int first = blockIdx.x * TILE, tiles = length / TILE;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.q_full, 1);
    for (int slot = 0; slot < STAGES; slot++) {
      ptx::mbarrier_init(&shared.k_full[slot], 1);
      ptx::mbarrier_init(&shared.v_full[slot], 1);
      ptx::mbarrier_init(&shared.empty[slot], 128);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  Place place;
  if (threadIdx.x >= 128) {
    if (threadIdx.x > 128) return;
    expect(&shared.q_full, sizeof(shared.q));
    load_box(shared.q, &q_map, 0, first, &shared.q_full);
    for (int tile = 0; tile < tiles; tile++, place.advance<STAGES>()) {
      int slot = place.slot;
      wait(&shared.empty[slot], place.parity ^ 1);
      expect(&shared.k_full[slot], sizeof(shared.k[0]));
      load_box(shared.k[slot], &k_map, 0, tile * TILE, &shared.k_full[slot]);
      expect(&shared.v_full[slot], sizeof(shared.v[0]));
      load_box(shared.v[slot], &v_map, 0, tile * TILE, &shared.v_full[slot]);
    }
    return;
  }
  float sums[32] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
  wait(&shared.q_full, 0);
  for (int tile = 0; tile < tiles; tile++, place.advance<STAGES>()) {
    float score[32];
    wait(&shared.k_full[place.slot], place.parity);
    multiply_step(score, shared.q, shared.k[place.slot], true);
    wgmma_wait(score);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float before = most[half], sum = 0;
#pragma unroll
      for (int i = 0; i < 32; i++)
        if (i / 2 % 2 == half) most[half] = fmaxf(most[half], score[i] *= scale);
      for (int lanes = 1; lanes < 4; lanes *= 2)
        most[half] = fmaxf(most[half], __shfl_xor_sync(~0u, most[half], lanes));
      float factor = __expf(before - most[half]);
#pragma unroll
      for (int i = 0; i < 32; i++)
        if (i / 2 % 2 == half) {
          sum += score[i] = __expf(score[i] - most[half]);
          sums[i] *= factor;
        }
      for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      total[half] = total[half] * factor + sum;
    }
    unsigned weights[4][4];
#pragma unroll
    for (int i = 0; i < 16; i++) {
      __half2 both = __floats2half2_rn(score[2 * i], score[2 * i + 1]);
      weights[i / 4][i % 4] = *reinterpret_cast<unsigned*>(&both);
    }
#ifndef VALUES_TOO_EARLY
    wait(&shared.v_full[place.slot], place.parity);
#endif
    for (int i = 0; i < 32; i++) asm volatile("" : "+f"(sums[i])::"memory");
    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(weights[i / 4][i % 4])::"memory");
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++)
      // reported: VALUES_TOO_EARLY
      wgmma_registers(sums, weights[step], described(shared.v[place.slot] + 16 * step * WIDTH));
    wgmma_commit();
    wgmma_wait(sums);
    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(weights[i / 4][i % 4])::"memory");
    ptx::mbarrier_arrive(&shared.empty[place.slot]);
  }
#pragma unroll
  for (int i = 0; i < 32; i++) sums[i] /= total[i / 2 % 2];
  each_pair(sums, [&](int y, int x, float left, float right) {
    *reinterpret_cast<float2*>(out + (first + y) * WIDTH + x) = make_float2(left, right);
  });
}
