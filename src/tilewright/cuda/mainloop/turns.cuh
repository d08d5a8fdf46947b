// Consumers of a warp-specialized kernel that take tiles by turns (sm_90).
#pragma once
#include "ptx/cta_barrier.cuh"
#include "types.cuh"

namespace tilewright {

// The turns of two consumers: the tiles of a CTA are theirs in alternation. One begins to wait for
// the k-blocks of its tile when the other has seen all of the tile before: it would take a phase
// that is two ahead for the one that is over (rule 6).
class Turns {
  static constexpr int threads = 2 * 128;  // of both
  int index;                               // of this consumer
  bool mine, waits;

 public:
  explicit __device__ __forceinline__ Turns(int consumer)
      : index(consumer), mine(consumer == 1), waits(consumer == 1) {}

  // Whether the next tile is this consumer's. If so, waits for its turn.
  __device__ __forceinline__ bool take() {
    mine = !mine;
    if (mine) {
      if (waits) cta_sync_at<threads>(1 + index);
      waits = true;
    }
    return mine;
  }

  // This consumer has seen the last k-block of its tile, which is not the last tile of all.
  __device__ __forceinline__ void pass() const { cta_arrive_at<threads>(2 - index); }
};

}  // namespace tilewright
