// The SMEM of a warp-specialized wgmma kernel, and the layout of tiles of A and B in it (sm_90a).
#pragma once
#include "layout/descriptor.cuh"
#include "types.cuh"

namespace tilewright {

template <int bytes>
struct Staging {
  alignas(1024) uint8_t staging[bytes];  // (warp, store_buffers, 16, store_columns)
};

template <>
struct Staging<0> {};

// All of a CTA's SMEM.
template <class Config>
struct Storage : Staging<Config::staging_bytes> {
  // For each stage the tile of A, then that of B.
  alignas(1024) uint8_t slots[Config::stages][Config::stage_bytes];
  uint64_t full[Config::stages];
  uint64_t empty[Config::stages];
};

template <class Config>
using OperandA = WgmmaOperand<Config::a_mn_major, Config::tile_m, Config::tile_k>;
template <class Config>
using OperandB = WgmmaOperand<Config::b_mn_major, Config::tile_n, Config::tile_k>;

}  // namespace tilewright
