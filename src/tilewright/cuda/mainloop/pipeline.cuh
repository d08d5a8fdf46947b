// The ring of SMEM slots between the producer and the consumers of a warp-specialized kernel
// (sm_90), which the CTAs of a cluster may share. docs/memory-rules.md has the rules by number.
#pragma once
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "scheduler/cluster_place.cuh"
#include "types.cuh"

namespace tilewright {

// A role's position in the ring: the slot, and the parity of the phase that its barriers are in.
template <int stages>
struct RingPosition {
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }

  // The same so many times.
  __device__ __forceinline__ void skip(uint32_t k_blocks) {
    const uint32_t next = slot + k_blocks % stages;
    parity ^= (k_blocks / stages + next / stages) & 1;
    slot = next % stages;
  }
};

// A slot is full when all bytes of its stage have arrived in this CTA. It is empty when it has been
// read by its readers in every CTA to which this CTA's producer writes.
template <class Config>
class Pipeline {
  using Place = ClusterPlace<Config>;
  using Position = RingPosition<Config::stages>;
  // Number of CTAs that share A or B with a CTA, including itself. Its producer writes to them, and
  // theirs write to it.
  static constexpr int partners = Config::cluster_m + Config::cluster_n - 1;

  uint32_t full, empty;  // SMEM addresses of the barriers of slot 0
  uint32_t released;     // the `empty` of the partner that this consumer thread tells

  // The CTA that thread `index` of a consumer warpgroup tells: first the partners with this n, then
  // those with this m.
  static __device__ __forceinline__ int partner_rank(const Place& place, int index) {
    if (index < Config::cluster_m) return place.rank_at(index, place.n);
    const int n = index - Config::cluster_m;
    return place.rank_at(place.m, n < place.n ? n : n + 1);
  }

 public:
  __device__ __forceinline__ Pipeline(uint32_t full_barriers, uint32_t empty_barriers)
      : full(full_barriers), empty(empty_barriers), released(empty_barriers) {}

  // Called by one thread, before `ClusterPlace::sync` (rule 5); `readers` consumers of a CTA read
  // each slot.
  __device__ __forceinline__ void init(int readers) const {
    for (int slot = 0; slot < Config::stages; ++slot) {
      mbarrier_init(full + 8 * slot, 1);  // the producer's arrival; the bytes are counted besides
      mbarrier_init(empty + 8 * slot, readers * partners);
    }
    fence_mbarrier_init();
  }

  // Producer: waits until the slot is empty.
  __device__ __forceinline__ void wait_empty(const Position& at) const {
    const uint32_t previous = at.parity ^ 1;
    if constexpr (Place::shares) {
      mbarrier_wait_cluster(empty + 8 * at.slot, previous);
    } else {
      mbarrier_wait(empty + 8 * at.slot, previous);
    }
  }

  // Producer: waits until the slot is empty and announces its bytes. Returns the barrier that the
  // copies signal.
  __device__ __forceinline__ uint32_t begin_fill(const Position& at) const {
    wait_empty(at);
    mbarrier_arrive_expect_tx(full + 8 * at.slot, Config::stage_bytes);
    return full + 8 * at.slot;
  }

  // Producer, after its last fill: waits until no CTA of the cluster arrives here anymore (rule
  // 16).
  __device__ __forceinline__ void drain(Position at) const {
    if constexpr (Place::shares) {
#pragma unroll 1
      for (int slot = 0; slot < Config::stages; ++slot) {
        wait_empty(at);
        at.advance();
      }
    }
  }

  // Consumer: all its threads call this once before `release`.
  __device__ __forceinline__ void join_as_consumer(const Place& place) {
    const int thread = threadIdx.x % 128;
    if constexpr (Place::shares) {
      if (thread < partners) released = cluster_address(empty, partner_rank(place, thread));
    }
  }

  // Consumer: waits for the bytes of the slot.
  __device__ __forceinline__ void wait_full(const Position& at) const {
    mbarrier_wait(full + 8 * at.slot, at.parity);
  }

  // Consumer: its wgmmas have read the slot. One arrival per warpgroup and partner.
  __device__ __forceinline__ void release(int slot) const {
    if (threadIdx.x % 128 < partners) {
      if constexpr (Place::shares) {
        mbarrier_arrive_cluster(released + 8 * slot);
      } else {
        mbarrier_arrive(released + 8 * slot);
      }
    }
  }
};

}  // namespace tilewright
