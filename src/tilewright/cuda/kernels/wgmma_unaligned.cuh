// wgmma (kernels/wgmma.cuh) for operands that TMA cannot address: rows of any stride that begin at
// any element, of A, of B or of both (sm_90a).
//
// In place of the producer, a warpgroup of four warps copies and shifts rows, and one of its
// threads brings the other operand by TMA. There are no clusters that share operands.
//
//   producers  copy 0  copy 1  copy 2  copy 3   copy 4 ...
//                              shift 0 shift 1  shift 2 ...
//   consumers                          mul 0    mul 1 ...
//
// docs/memory-rules.md has the rules by number.
#pragma once
#include "epilogue/cluster_sum.cuh"
#include "kernels/wgmma.cuh"
#include "mainloop/pipeline.cuh"
#include "mainloop/row_producer.cuh"
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/cta_barrier.cuh"
#include "ptx/elect.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/cluster_place.cuh"
#include "scheduler/tile_loop.cuh"
#include "types.cuh"

namespace tilewright {

template <class Config>
__device__ __forceinline__ void run_unaligned(const TensorMap* map,
                                              const GemmParameters& parameters) {
  extern __shared__ __align__(1024) uint8_t smem[];
  static_assert(sizeof(Storage<Config>) == Config::smem_bytes,
                "wgmma_unaligned.py and this file agree");
  static_assert(OperandA<Config>::bytes == Config::a_bytes &&
                OperandB<Config>::bytes == Config::b_bytes);
  static_assert(Config::cluster_m == 1 && Config::cluster_n == 1 && Config::k_spans == 1);
  Storage<Config>& storage = *reinterpret_cast<Storage<Config>*>(smem);
  const ClusterPlace<Config> place;
  Pipeline<Config> pipeline(shared_address(storage.full), shared_address(storage.empty));
  const TileLoop<Config> tiles(place, parameters);

  constexpr int consumer_warps = Config::consumers * 4;
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);  // of which the compiler knows
  if (warp == consumer_warps && elected()) {
    if (shared_address(smem) % 1024 != 0) __trap();  // swizzled tiles need it
    if constexpr (Config::tma_bytes > 0) prefetch_tensor_map(*map);
    pipeline.init();
    if constexpr (Config::split_k > 1) ClusterSum<Config>(storage, place.part).init();
  }
  place.sync();

  if (warp >= consumer_warps) {
    if constexpr (Config::moves_registers) release_registers<Config::producer_registers>();
    RowProducer<Config>(storage, pipeline, tiles, map, parameters).run();
  } else {
    if constexpr (Config::moves_registers) acquire_registers<Config::consumer_registers>();
    pipeline.join_as_consumer(place);
    consume(storage, pipeline, place, tiles, nullptr, parameters, warp / 4);
  }
}

// The kernel that takes the tensor map of the one operand that TMA addresses.
template <class Config>
__device__ __forceinline__ void wgmma_unaligned_kernel(const TensorMap& map,
                                                       const GemmParameters& parameters) {
  run_unaligned<Config>(&map, parameters);
}

template <class Config>
__device__ __forceinline__ void wgmma_unaligned_kernel(const GemmParameters& parameters) {
  run_unaligned<Config>(nullptr, parameters);
}

}  // namespace tilewright
