"""CUDA C++ that several tests compile."""

PTX_WRAPPERS = """
typedef unsigned long long u64;
typedef unsigned short bf16;
struct alignas(64) TensorMap { u64 opaque[16]; };
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void mbarrier_init(unsigned b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;"
               :: "r"(b), "r"(n) : "memory");
}
__device__ void mbarrier_expect(unsigned b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
}
__device__ void mbarrier_arrive(unsigned b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory");
}
__device__ void mbarrier_arrive_at_rank(unsigned b, int rank) {
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1;"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];}" :: "r"(b), "r"(rank) : "memory");
}
__device__ void mbarrier_wait(unsigned b, unsigned parity) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }"
               :: "r"(b), "r"(parity) : "memory");
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""
"""Shared addresses, mbarriers and the barrier of a cluster."""

TRANSPOSE = """
extern "C" __global__ void transpose(float* out, const float* in, int n, float scale) {
  __shared__ float tile[32][32 + PAD];
  int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 32, j = blockIdx.y * 32;
  tile[y][x] = scale * in[(j + y) * n + i + x];
  BARRIER;
  out[(i + y) * n + j + x] = tile[x][y];
}
"""
"""A square tile through shared memory; PAD: columns besides, BARRIER: between writing and reading."""

SCALE = """
extern "C" __global__ void __launch_bounds__(128) scale(float* out, float factor) {
  extern __shared__ float shared[];
  shared[threadIdx.x] = factor;
  out[threadIdx.x] = shared[threadIdx.x];
}
extern "C" __global__ void nothing() {}
"""
"""Two entries, one with dynamic shared memory."""

LOAD_TILE = (
    PTX_WRAPPERS
    + """
extern "C" __global__ void load(const __grid_constant__ TensorMap map, const unsigned short* in, int* wrong) {
  __shared__ __align__(1024) unsigned short tile[8 * 64];
  __shared__ __align__(8) unsigned long long barrier;
  unsigned b = shared_address(&barrier);
  if (threadIdx.x == 0) {
    mbarrier_init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    mbarrier_expect(b, 1024);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(shared_address(tile)), "l"(&map), "r"(b), "r"(64), "r"(8) : "memory");
  }
  __syncthreads();
  mbarrier_wait(b, 0);
  int row = threadIdx.x / 64, column = threadIdx.x % 64;
  int chunk = column / 8 ^ row;
  int expected = row + 8 < 12 ? in[(row + 8) * 128 + 64 + column] : 0;
  if (tile[row * 64 + chunk * 8 + column % 8] != expected) *wrong = 1;
}
"""
)
"""An 8 x 64 tile of a tensor of 16-bit elements, from row 8 and column 64 on, with a 128-byte swizzle: *wrong is set
where it is not that of `in`, whose rows have 128 elements, 12 of them.
"""
