"""A flash attention forward pass with mma.sync: out = softmax(q k^T / sqrt(64)) v for heads of 64 fp16 elements."""

import numpy as np

from tilewright.emulator import Device

# A CTA of four warps takes 64 queries of a head, a warp 16 of them, and goes through the keys 64 at a time.
# cp.async fills the next slot of keys and values while the warps multiply by those of the other slot.
ATTENTION = """
#include_half
typedef unsigned u32;
constexpr int D = 64, ROWS = 64, PITCH = D + 8;
__device__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place(to)), "l"(from) : "memory");
}
__device__ void load(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(p)) : "memory");
}
__device__ void load_transposed(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(p)) : "memory");
}
__device__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9},"
               " {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ float exp2(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

extern "C" __global__ void __launch_bounds__(128)
attention(float* out, const half* q, const half* k, const half* v, int length) {
  __shared__ __align__(16) half keys[2][ROWS][PITCH], values[2][ROWS][PITCH];
  int t = threadIdx.x, warp = t / 32, lane = t % 32, head = blockIdx.y * length;
  int first = head + blockIdx.x * ROWS + warp * 16;
  auto fill = [&](int slot, int row) {
    for (int i = t; i < ROWS * D / 8; i += 128) {
      copy(&keys[slot][i / 8][i % 8 * 8], k + (head + row + i / 8) * D + i % 8 * 8);
      copy(&values[slot][i / 8][i % 8 * 8], v + (head + row + i / 8) * D + i % 8 * 8);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  u32 query[D / 16][4];
  for (int i = 0; i < D / 16; i++)
    for (int j = 0; j < 4; j++)
      query[i][j] = *(const u32*)(q + (first + lane / 4 + j % 2 * 8) * D + i * 16 + j / 2 * 8 + lane % 4 * 2);
  float sums[D / 8][4] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};
  fill(0, 0);
  for (int step = 0, row = 0; row < length; step++, row += ROWS) {
    if (row + ROWS < length) fill((step + 1) & 1, row + ROWS);
    else asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    half (*key)[PITCH] = keys[step & 1], (*value)[PITCH] = values[step & 1];
    float scores[ROWS / 8][4] = {};
    for (int i = 0; i < D / 16; i++)
      for (int j = 0; j < ROWS / 16; j++) {
        u32 b[4];
        load(b, &key[j * 16 + lane % 8 + lane / 16 * 8][i * 16 + lane / 8 % 2 * 8]);
        multiply(scores[2 * j], query[i], b[0], b[1]);
        multiply(scores[2 * j + 1], query[i], b[2], b[3]);
      }
    for (int h = 0; h < 2; h++) {
      float now = most[h];
      for (int j = 0; j < ROWS / 8; j++)
        for (int e = 0; e < 2; e++) now = fmaxf(now, scores[j][2 * h + e] *= 0.125f * 1.4426950408889634f);
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
      float shrink = exp2(most[h] - now);
      most[h] = now;
      total[h] *= shrink;
      for (int j = 0; j < D / 8; j++)
        for (int e = 0; e < 2; e++) sums[j][2 * h + e] *= shrink;
      for (int j = 0; j < ROWS / 8; j++)
        for (int e = 0; e < 2; e++) total[h] += scores[j][2 * h + e] = exp2(scores[j][2 * h + e] - now);
    }
    for (int i = 0; i < ROWS / 16; i++) {
      u32 a[4] = {pack(scores[2 * i][0], scores[2 * i][1]), pack(scores[2 * i][2], scores[2 * i][3]),
                  pack(scores[2 * i + 1][0], scores[2 * i + 1][1]), pack(scores[2 * i + 1][2], scores[2 * i + 1][3])};
      for (int j = 0; j < D / 16; j++) {
        u32 b[4];
        load_transposed(b, &value[i * 16 + lane % 16][j * 16 + lane / 16 * 8]);
        multiply(sums[2 * j], a, b[0], b[1]);
        multiply(sums[2 * j + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }
  for (int h = 0; h < 2; h++) {
    total[h] += __shfl_xor_sync(~0u, total[h], 1);
    total[h] += __shfl_xor_sync(~0u, total[h], 2);
    for (int j = 0; j < D / 8; j++)
      for (int e = 0; e < 2; e++)
        out[(first + lane / 4 + h * 8) * D + j * 8 + lane % 4 * 2 + e] = sums[j][2 * h + e] / total[h];
  }
}
""".replace("#include_half", "struct half { unsigned short bits; };")
HEAD = 64
ROWS = 64


def attend(ptx, heads, length, **options):
    """The result of the kernel, (heads, length, 64), that of float64, and the device; `options` are the device's."""
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((heads, length, HEAD)).astype(np.float16) for _ in range(3)]
    device = Device(memory_bytes=1 << 26, **options)
    out = device.allocate(4 * heads * length * HEAD)
    addresses = [device.upload(each) for each in inputs]
    device.launch(device.load(ptx), (length // ROWS, heads), 128, [out, *addresses, length])
    q, k, v = (each.astype(np.float64) for each in inputs)
    weights = np.exp(q @ k.swapaxes(1, 2) / 8)
    expected = weights / weights.sum(axis=2, keepdims=True) @ v
    found = device.read(out, 4 * expected.size).view(np.float32).reshape(expected.shape)
    return found, expected, device
