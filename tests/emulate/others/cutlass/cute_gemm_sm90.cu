// C = A B^T in CuTe for sm_90: TMA boxes, wgmma by a TiledMMA, and a TMA store of half-precision
// sums.
#include <cutlass/arch/barrier.h>

#include <cute/tensor.hpp>

using namespace cute;
using cutlass::arch::ClusterTransactionBarrier;
constexpr int STAGES = 2;
using LayoutA =
    decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_64, _64, Int<STAGES>>{}));
using LayoutB =
    decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_64, _64, Int<STAGES>>{}));

struct Shared {
  alignas(1024) half_t a[cosize_v<LayoutA>];
  alignas(1024) half_t b[cosize_v<LayoutB>];
  alignas(1024) half_t c[64 * 64];
  ClusterTransactionBarrier full[STAGES];
};

extern "C" __global__ void __launch_bounds__(128)
    cute_gemm_sm90(const __grid_constant__ CUtensorMap c_map,
                   const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  auto ring_a = make_tensor(make_smem_ptr(shared.a), LayoutA{});
  auto ring_b = make_tensor(make_smem_ptr(shared.b), LayoutB{});
  auto products = make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{});
  auto mine = products.get_slice(threadIdx.x);
  auto a = mine.make_fragment_A(mine.partition_A(ring_a)),
       b = mine.make_fragment_B(mine.partition_B(ring_b));
  auto staged = make_tensor(make_smem_ptr(shared.c), Layout<Shape<_64, _64>, Stride<_64, _1>>{});
  auto part_c = mine.partition_C(staged);
  auto sums = mine.make_fragment_C(part_c);

  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; slot++) shared.full[slot].init(1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  auto fetch = [&](int step) {
    if (threadIdx.x > 0 || step >= k / 64) return;
    int slot = step % STAGES;
    auto* barrier = reinterpret_cast<uint64_t*>(&shared.full[slot]);
    shared.full[slot].arrive_and_expect_tx(2 * 64 * 64 * sizeof(half_t));
    auto hint = static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_NORMAL);
    SM90_TMA_LOAD_2D::copy(&a_map, barrier, hint, shared.a + slot * 4096, 64 * step,
                           64 * blockIdx.y);
    SM90_TMA_LOAD_2D::copy(&b_map, barrier, hint, shared.b + slot * 4096, 64 * step,
                           64 * blockIdx.x);
  };
  products.accumulate_ = GMMA::ScaleOut::Zero;
  fetch(0);
  for (int step = 0; step < k / 64; step++) {
    fetch(step + 1);
    shared.full[step % STAGES].wait(step / STAGES % 2);
    warpgroup_fence_operand(sums);
#ifndef NO_ARRIVE
    warpgroup_arrive();
#endif
    CUTE_UNROLL
    for (int block = 0; block < size<2>(a); block++) {
      // reported: NO_ARRIVE, NO_WAIT
      gemm(products, a(_, _, block, step % STAGES), b(_, _, block, step % STAGES), sums);
      products.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
#ifndef NO_WAIT
    warpgroup_wait<0>();
#endif
    warpgroup_fence_operand(sums);
    __syncthreads();
  }
  auto rounded = make_tensor_like<half_t>(sums);
  for (int i = 0; i < size(sums); i++) rounded(i) = half_t(sums(i));
  copy(rounded, part_c);
#ifndef NO_STORE_FENCE
  tma_store_fence();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    // reported: NO_STORE_FENCE
    SM90_TMA_STORE_2D::copy(&c_map, shared.c, 64 * blockIdx.x, 64 * blockIdx.y);
    tma_store_arrive();
    tma_store_wait<0>();
  }
}
