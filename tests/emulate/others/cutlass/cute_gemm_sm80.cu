// C = A B^T in CuTe for sm_80: cp.async into a swizzled ring, ldmatrix, mma.sync, tiles of 128 x 64
// x 32.
#include <cute/tensor.hpp>

using namespace cute;
constexpr int STAGES = 3;
using Block = Shape<_128, _64, _32>;
using Atom = decltype(composition(Swizzle<2, 3, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{}));
using LayoutA = decltype(tile_to_shape(Atom{}, Shape<_128, _32, Int<STAGES>>{}));
using LayoutB = decltype(tile_to_shape(Atom{}, Shape<_64, _32, Int<STAGES>>{}));

extern "C" __global__ void __launch_bounds__(128)
    cute_gemm_sm80(float* c, const half_t* a, const half_t* b, int m, int n, int k) {
  extern __shared__ __align__(128) half_t memory[];
  auto whole_a = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  auto whole_b = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  auto whole_c = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  auto at = make_coord(blockIdx.y, blockIdx.x, _);
  auto tile_a = local_tile(whole_a, Block{}, at, Step<_1, X, _1>{});
  auto tile_b = local_tile(whole_b, Block{}, at, Step<X, _1, _1>{});
  auto tile_c = local_tile(whole_c, Block{}, at, Step<_1, _1, X>{});
  auto ring_a = make_tensor(make_smem_ptr(memory), LayoutA{});
  auto ring_b = make_tensor(make_smem_ptr(memory + cosize_v<LayoutA>), LayoutB{});

  auto copies = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, half_t>{},
                                Layout<Shape<_32, _4>, Stride<_4, _1>>{}, Layout<Shape<_1, _8>>{});
  auto my_copy = copies.get_slice(threadIdx.x);
  auto from_a = my_copy.partition_S(tile_a);
  auto from_b = my_copy.partition_S(tile_b);
  auto to_a = my_copy.partition_D(ring_a);
  auto to_b = my_copy.partition_D(ring_b);

  auto products = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2>>{},
                                 cute::Tile<_32, _32, _16>{});
  auto my_products = products.get_slice(threadIdx.x);
  auto part_c = my_products.partition_C(tile_c);
  auto sums = my_products.make_fragment_C(part_c);
  auto fragment_a = my_products.partition_fragment_A(ring_a(_, _, 0));
  auto fragment_b = my_products.partition_fragment_B(ring_b(_, _, 0));
  auto load_a = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, products);
  auto load_b = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, products);
  auto matrices_a = load_a.get_slice(threadIdx.x).partition_S(ring_a);
  auto matrices_b = load_b.get_slice(threadIdx.x).partition_S(ring_b);
  auto into_a = load_a.get_slice(threadIdx.x).retile_D(fragment_a);
  auto into_b = load_b.get_slice(threadIdx.x).retile_D(fragment_b);

  int steps = size<2>(tile_a);
  auto fetch = [&](int step) {
    if (step < steps) {
      copy(copies, from_a(_, _, _, step), to_a(_, _, _, step % STAGES));
      copy(copies, from_b(_, _, _, step), to_b(_, _, _, step % STAGES));
    }
    cp_async_fence();
  };
  clear(sums);
  for (int step = 0; step < STAGES - 1; step++) fetch(step);
  for (int step = 0; step < steps; step++) {
#ifdef ONE_LATE
    cp_async_wait<STAGES - 1>();
#else
    cp_async_wait<STAGES - 2>();
#endif
#ifndef NO_SYNC
    __syncthreads();
#endif
    CUTE_UNROLL
    for (int block = 0; block < size<2>(fragment_a); block++) {
      // reported: ONE_LATE, NO_SYNC
      copy(load_a, matrices_a(_, _, block, step % STAGES), into_a(_, _, block));
      copy(load_b, matrices_b(_, _, block, step % STAGES), into_b(_, _, block));
      gemm(products, fragment_a(_, _, block), fragment_b(_, _, block), sums);
    }
    fetch(step + STAGES - 1);
  }
  copy(sums, part_c);
}
