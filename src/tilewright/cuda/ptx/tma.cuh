// Bulk copies of boxes of a tensor by the Tensor Memory Accelerator (sm_90). All tensors here are
// three-dimensional: x runs along the contiguous dimension, y along rows, z along the batch.
#pragma once
#include "types.cuh"

namespace tilewright {

// A tensor's address, extents, strides, box and swizzle, as cuTensorMapEncodeTiled encodes them.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

// PTX ISA: "prefetch".
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

// Copies the box at (x, y, z) to SMEM. Its bytes count toward the transaction of `barrier`.
// Elements outside the tensor become zero and count too. PTX ISA: "cp.async.bulk.tensor".
__device__ __forceinline__ void tma_load(uint32_t destination, const TensorMap& map, int x, int y,
                                         int z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];"
      :
      : "r"(destination), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// Copies the box to every CTA of the cluster whose bit in `ctas` is set. In each, it has the same
// SMEM address and signals the barrier at the same address. PTX ISA: "cp.async.bulk.tensor",
// .multicast::cluster.
__device__ __forceinline__ void tma_load_multicast(uint32_t destination, const TensorMap& map,
                                                   int x, int y, int z, uint32_t barrier,
                                                   uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster"
      " [%0], [%1, {%2, %3, %4}], [%5], %6;"
      :
      : "r"(destination), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(ctas)
      : "memory");
}

// Copies a box from SMEM to the tensor at (x, y, z), as part of this thread's open bulk group.
// Elements outside the tensor are left out. PTX ISA: "cp.async.bulk.tensor".
__device__ __forceinline__ void tma_store(const TensorMap& map, uint32_t source, int x, int y,
                                          int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
               :
               : "l"(&map), "r"(source), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Closes this thread's bulk group. PTX ISA: "cp.async.bulk.commit_group".
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

// Waits until all but the newest `pending` bulk groups of this thread are complete. PTX ISA:
// "cp.async.bulk.wait_group".
template <int pending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" : : "n"(pending) : "memory");
}

// Waits until all but the newest `pending` bulk groups have read their source. PTX ISA:
// "cp.async.bulk.wait_group", .read.
template <int pending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory");
}

// Orders this thread's accesses to SMEM before later ones by TMA and wgmma. PTX ISA: "membar /
// fence".
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

}  // namespace tilewright
