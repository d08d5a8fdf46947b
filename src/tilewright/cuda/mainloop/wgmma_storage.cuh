// The SMEM of a warp-specialized wgmma kernel, and the layout of tiles of A and B in it (sm_90a).
#pragma once
#include "layout/descriptor.cuh"
#include "mainloop/wgmma_scales.cuh"
#include "types.cuh"

namespace tilewright {

template <int bytes>
struct Staging {
  alignas(1024) uint8_t staging[bytes];  // (warp, store_buffers, 16, store_columns)
};

template <>
struct Staging<0> {};

template <class Config>
struct Slots : Staging<Config::staging_bytes> {
  // Each stage has k_spans spans of A, then those of B.
  alignas(1024) uint8_t slots[Config::stages][Config::stage_bytes];
  uint64_t full[Config::stages];
  uint64_t empty[Config::stages];
};

// The partial sums that the other CTAs of a cluster send (epilogue/cluster_sum.cuh).
template <int bytes>
struct PartialSums {
  alignas(16) uint8_t sums[bytes];
  uint64_t received;
};

template <>
struct PartialSums<0> {};

// All of a CTA's SMEM.
template <class Config>
struct Storage : Slots<Config>, ScaleSlots<Config>, PartialSums<Config::sum_bytes> {};

// One span of an operand's tile: 128 bytes along k.
template <class Config>
using OperandA = WgmmaOperand<Config::a_mn_major, Config::tile_m, 128 / Config::input_bytes,
                              Config::input_bytes>;
template <class Config>
using OperandB = WgmmaOperand<Config::b_mn_major, Config::tile_n, 128 / Config::input_bytes,
                              Config::input_bytes>;

}  // namespace tilewright
