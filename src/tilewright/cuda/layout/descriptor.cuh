// The SMEM matrix descriptors of wgmma, for operands in rows of 128 bytes with 128-byte swizzle, as
// TMA leaves them: of 2-byte elements, which the figures show, or of 1-byte elements, which are
// K-major. PTX ISA: "wgmma: matrix descriptor", "wgmma: shared memory
// matrix layout".
//
// K-major: one row of 64 elements along k per m (or n). Eight rows are a swizzle atom, 1024 bytes.
//
//        k 0 ........ 63
//   mn 0 |  128 bytes  |     stride dimension: from one atom of 8 mn to the next, 1024 bytes
//   ...  |             |     leading dimension: not used, a step along k stays inside the row
//
// MN-major: panels of 64 elements along m (or n), with one row per k.
//
//        mn 0 ....... 63   mn 64 ...
//   k 0  |  128 bytes  |   |        stride dimension: from one atom of 8 k to the next, 1024 bytes
//   ...  |             |   |        leading dimension: from one panel to the next, tile_k rows
//   k 63 |             |   |
#pragma once
#include "types.cuh"

namespace tilewright {

// One operand's tile in a slot of the ring, tile_mn long along m or n.
template <bool mn_major_, int tile_mn_, int tile_k_, int element_bytes = 2>
struct WgmmaOperand {
  static constexpr bool mn_major = mn_major_;
  static constexpr int tile_mn = tile_mn_, tile_k = tile_k_;
  static constexpr int row_bytes = 128;
  static constexpr int atom_bytes = 8 * row_bytes;
  static constexpr int panel_rows = 64;  // along mn, in MN-major layout
  static constexpr int panel_bytes = tile_k * row_bytes;
  static constexpr int panels = ceil_div(tile_mn, panel_rows);
  static constexpr int bytes = mn_major ? panels * panel_bytes : tile_mn * row_bytes;
  static_assert(tile_k * element_bytes == row_bytes, "a K-major row is one swizzle span");
  static_assert(!mn_major || element_bytes == 2, "wgmma reads other elements along k");

  // Distances in descriptors, which count 16 bytes: to the next 32 bytes of k, and to the next 64
  // of mn.
  static constexpr uint32_t k_step = (mn_major ? 16 * row_bytes : 32) / 16;
  static constexpr uint32_t block_step = (mn_major ? panel_bytes : 64 * row_bytes) / 16;

  // The descriptor of a matrix that starts at `address`, which is aligned to an atom.
  static __device__ __forceinline__ uint64_t descriptor(uint32_t address) {
    return with_high_word(low_word(address));
  }

  // Its words. Only the low one depends on the address, and distances are added to it alone. In a
  // cluster, upper bits of a shared address are the number of the CTA.
  static __device__ __forceinline__ uint32_t low_word(uint32_t address) {
    constexpr uint32_t leading = mn_major ? panel_bytes / 16 : 1;
    return (address & 0x3FFFF) >> 4 | leading << 16;
  }
  static __device__ __forceinline__ uint64_t with_high_word(uint32_t low) {
    constexpr uint32_t stride = atom_bytes / 16;
    constexpr uint32_t swizzle_128 = 1;
    return static_cast<uint64_t>(stride | swizzle_128 << 30) << 32 | low;
  }
};

}  // namespace tilewright
