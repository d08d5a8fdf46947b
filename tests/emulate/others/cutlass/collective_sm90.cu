// CUTLASS's collective for sm_90: CollectiveBuilder chooses a warp-specialized mainloop of TMA and
// wgmma.
#include <cute/tensor.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>

using namespace cute;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, half_t, cutlass::layout::RowMajor, 8,
    half_t, cutlass::layout::ColumnMajor, 8, float, Shape<_64, _64, _64>, Shape<_1, _1, _1>,
    cutlass::gemm::collective::StageCount<3>,
    cutlass::gemm::KernelTmaWarpSpecialized>::CollectiveOp;
using Pipeline = Mainloop::MainloopPipeline;

// TMA finds its maps by address, and a parameter's address cannot be in Params that the kernel
// makes: they are in global memory, where the thread that copies them releases them.
extern "C" __global__ void __launch_bounds__(256)
    collective_sm90(float* c, Mainloop::Params* params, const __grid_constant__ CUtensorMap a_map,
                    const __grid_constant__ CUtensorMap b_map, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& storage = *reinterpret_cast<Mainloop::SharedStorage*>(memory);
  Mainloop::Params* mine = params + blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) {
    *const_cast<CUtensorMap*>(mine->tma_load_a.get_tma_descriptor()) = a_map;
    *const_cast<CUtensorMap*>(mine->tma_load_b.get_tma_descriptor()) = b_map;
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
  }
  bool produces = threadIdx.x < 128;
  Pipeline::Params of_pipeline;
  of_pipeline.transaction_bytes = 2 * 64 * 64 * sizeof(half_t);
  of_pipeline.role =
      produces ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  of_pipeline.is_leader = threadIdx.x == 0;
  of_pipeline.num_consumers = 128;
  Pipeline pipeline(storage.pipeline, of_pipeline, Shape<_1, _1, _1>{});
  __syncthreads();

  Mainloop mainloop;
  auto problem = make_shape(m, n, k, 1);
  if (produces) {
    if (threadIdx.x == 0) {
#ifndef NO_ACQUIRE
      tma_descriptor_fence_acquire(mine->tma_load_a.get_tma_descriptor());
      tma_descriptor_fence_acquire(mine->tma_load_b.get_tma_descriptor());
#endif
    }
    if (threadIdx.x < 32) {
      auto inputs = mainloop.load_init(problem, *mine);
      auto steps = cute::make_coord_iterator(shape<3>(get<0>(inputs)));
      auto state = cutlass::make_producer_start_state<Pipeline>();
      // reported: NO_ACQUIRE
      mainloop.load(*mine, pipeline, state, inputs,
                    make_coord(int(blockIdx.y), int(blockIdx.x), _, 0), steps, k / 64, threadIdx.x,
                    0, storage.tensors);
      state.advance(k / 64);
      mainloop.load_tail(pipeline, state);
    }
  } else {
    Mainloop::TiledMma products;
    auto whole = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
    auto tile = local_tile(whole, Shape<_64, _64>{}, make_coord(blockIdx.y, blockIdx.x));
    auto part_c = products.get_slice(threadIdx.x - 128).partition_C(tile);
    auto sums = partition_fragment_C(products, Shape<_64, _64>{});
    cutlass::PipelineState<3> state;
    mainloop.mma(pipeline, state, sums, k / 64, threadIdx.x - 128, storage.tensors, *mine);
    mainloop.mma_tail(pipeline, state, k / 64);
    copy(sums, part_c);
  }
}
