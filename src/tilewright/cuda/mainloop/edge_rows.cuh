// The rows of a ring's slots that the loads of the last tiles leave as they are (sm_90a).
//
// A product of such a row is never stored. It is cleared once, so that nothing is read that was not
// written.
#pragma once
#include "mainloop/wgmma_storage.cuh"
#include "parameters.cuh"
#include "ptx/shared_memory.cuh"
#include "ptx/tma.cuh"
#include "types.cuh"

namespace tilewright {

// The first row of an operand's tiles that a load may leave out: 0 where clusters have tiles wholly
// outside the operand, tile_mn where there are whole tiles only.
template <class Operand>
__device__ __forceinline__ int first_edge_row(int extent, int ctas) {
  const int tiles = ceil_div(extent, Operand::tile_mn), rest = extent % Operand::tile_mn;
  return tiles % ctas ? 0 : rest ? rest : Operand::tile_mn;
}

// Clears `bytes` bytes of SMEM from an aligned address on; of `threads` threads, this is number
// `thread`.
template <int threads>
__device__ __forceinline__ void clear_shared(uint32_t address, int bytes, int thread) {
  const uint32_t zeros[4] = {};
  for (int at = thread * 16; at < bytes; at += threads * 16) store_shared(address + at, zeros);
}

template <class Config>
class EdgeRows {
  using A = OperandA<Config>;
  using B = OperandB<Config>;
  int a, b;  // the first row that may be left out

  // Where that row of a span begins.
  template <class Operand>
  static __device__ __forceinline__ int offset(int row) {
    if constexpr (Operand::mn_major)
      return ceil_div(row, Operand::panel_rows) * Operand::panel_bytes;
    return row * Operand::row_bytes;
  }

 public:
  __device__ __forceinline__ explicit EdgeRows(const GemmParameters& parameters)
      : a(first_edge_row<A>(parameters.m, Config::cluster_m)),
        b(first_edge_row<B>(parameters.n, Config::cluster_n)) {}

  __device__ __forceinline__ bool exist() const { return a < A::tile_mn || b < B::tile_mn; }

  // By all consumers, before the barrier of the CTA or cluster that lets the producers begin.
  __device__ __forceinline__ void clear(Storage<Config>& storage) const {
    const uint32_t slots = shared_address(storage.slots);
#pragma unroll 1
    for (int i = 0; i < Config::stages * Config::k_spans; ++i) {
      const int span = i % Config::k_spans;
      const uint32_t slot = slots + i / Config::k_spans * Config::stage_bytes;
      clear<A>(slot + span * A::bytes, a);
      clear<B>(slot + Config::a_bytes + span * B::bytes, b);
    }
    fence_proxy_async_shared();  // wgmma reads it, TMA may overwrite it (rule 1)
  }

 private:
  template <class Operand>
  static __device__ __forceinline__ void clear(uint32_t span, int row) {
    const int begin = offset<Operand>(row);
    clear_shared<Config::consumers * 128>(span + begin, Operand::bytes - begin, threadIdx.x);
  }
};

}  // namespace tilewright
