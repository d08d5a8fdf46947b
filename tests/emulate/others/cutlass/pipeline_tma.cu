// PipelineTmaAsync: one thread produces, a warpgroup consumes; in a cluster of CLUSTER blocks B is
// multicast.
#include <cute/arch/cluster_sm90.hpp>
#include <cute/tensor.hpp>
#include <cutlass/pipeline/pipeline.hpp>

using namespace cute;
#ifndef CLUSTER
#define CLUSTER 1
#endif
constexpr int STAGES = 3, PART = 64 / CLUSTER;
using Pipeline = cutlass::PipelineTmaAsync<STAGES>;
using Ring =
    decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_64, _64, Int<STAGES>>{}));

struct Shared {
  alignas(1024) half_t a[cosize_v<Ring>];
  alignas(1024) half_t b[cosize_v<Ring>];
  alignas(16) Pipeline::SharedStorage pipeline;
};

extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(256)
    pipeline_tma(float* c, const __grid_constant__ CUtensorMap a_map,
                 const __grid_constant__ CUtensorMap b_map, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  bool produces = threadIdx.x >= 128;
  Pipeline::Params params;
  params.transaction_bytes = 2 * 64 * 64 * sizeof(half_t);
  params.role = produces ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  params.is_leader = threadIdx.x == 128;
  params.num_consumers = 128;
  Pipeline pipeline(shared.pipeline, params, Shape<Int<CLUSTER>, _1, _1>{});
#if CLUSTER > 1
  cluster_arrive_relaxed();
  cluster_wait();
#else
  __syncthreads();
#endif

  int steps = k / 64, row = 64 * blockIdx.x, column = 64 * blockIdx.y;
  if (produces) {
    if (threadIdx.x == 128) {
      auto state = cutlass::make_producer_start_state<Pipeline>();
      auto hint = static_cast<uint64_t>(TMA::CacheHintSm90::EVICT_NORMAL);
      for (int step = 0; step < steps; step++, ++state) {
#ifndef NO_ACQUIRE
        pipeline.producer_acquire(state);
#else
        if (step < STAGES)
          pipeline.producer_acquire(state);
        else
          shared.pipeline.full_barrier_[state.index()].arrive_and_expect_tx(
              params.transaction_bytes);
#endif
        auto* barrier = pipeline.producer_get_barrier(state);
        half_t *a = shared.a + state.index() * 4096, *b = shared.b + state.index() * 4096;
        // reported: NO_ACQUIRE, RELEASED_EARLY
        SM90_TMA_LOAD_2D::copy(&a_map, barrier, hint, a, 64 * step, row);
#if CLUSTER > 1
        int part = PART * cute::block_rank_in_cluster();
        SM90_TMA_LOAD_MULTICAST_2D::copy(&b_map, barrier, (1 << CLUSTER) - 1, hint, b + part * 64,
                                         64 * step, column + part);
#else
        SM90_TMA_LOAD_2D::copy(&b_map, barrier, hint, b, 64 * step, column);
#endif
      }
#ifndef NO_TAIL
      pipeline.producer_tail(state);
#endif
    }
  } else {
    auto ring_a = make_tensor(make_smem_ptr(shared.a), Ring{}),
         ring_b = make_tensor(make_smem_ptr(shared.b), Ring{});
    auto products = make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{});
    auto mine = products.get_slice(threadIdx.x);
    auto a = mine.make_fragment_A(mine.partition_A(ring_a)),
         b = mine.make_fragment_B(mine.partition_B(ring_b));
    auto out =
        make_tensor(make_gmem_ptr(c + row * n + column), Shape<_64, _64>{}, make_stride(n, _1{}));
    auto part_c = mine.partition_C(out);
    auto sums = mine.make_fragment_C(part_c);
    products.accumulate_ = GMMA::ScaleOut::Zero;
    cutlass::PipelineState<STAGES> reads, releases;
    for (int step = 0; step < steps; step++, ++reads) {
      pipeline.consumer_wait(reads);
      warpgroup_fence_operand(sums);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int block = 0; block < size<2>(a); block++) {
        gemm(products, a(_, _, block, reads.index()), b(_, _, block, reads.index()), sums);
        products.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
#ifdef RELEASED_EARLY
      pipeline.consumer_release(reads);
#else
      warpgroup_wait<1>();  // the multiplication before this one
      if (step > 0) pipeline.consumer_release(releases), ++releases;
#endif
      warpgroup_fence_operand(sums);
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(sums);
#ifndef RELEASED_EARLY
    pipeline.consumer_release(releases);
#endif
    copy(sums, part_c);
  }
}  // reported: NO_TAIL
