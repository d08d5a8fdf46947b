// Microbenchmark: a chain of loads or atomics, each at the address that the one before has brought,
// as docs/machine/dsmem.md explains it.
//
// Entries are 128 bytes apart, and each holds the address of another one. `order` says which, so
// that the chain goes through all of them in turn. One thread of each CTA follows its own chain.
// In the CTA's own SMEM, entries may also hold numbers of entries, as C's `i = ring[i]` has them:
// each step then computes an address, too.
#pragma once
#include "ptx/cluster.cuh"
#include "ptx/shared_memory.cuh"
#include "types.cuh"

namespace tilewright {

// Where the chain lies: the CTA's own SMEM, that of the other CTA of its cluster, L1, or L2.
enum ChainPlace { own_smem, other_smem, first_level, second_level };
enum ChainOperation { plain_load, atomic_add, indexed_load };

template <int place, int operation>
__device__ __forceinline__ uint32_t next_address(uint32_t address) {
  constexpr bool atomic = operation == atomic_add;
  uint32_t next;
  if constexpr (place == own_smem && atomic) {
    asm volatile("atom.shared.add.u32 %0, [%1], 0;" : "=r"(next) : "r"(address) : "memory");
  } else if constexpr (place == own_smem) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(address) : "memory");
  } else if constexpr (atomic) {
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 0;"
                 : "=r"(next)
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(next) : "r"(address) : "memory");
  }
  return next;
}

template <int place, int operation>
__device__ __forceinline__ uint64_t next_address(uint64_t address) {
  uint64_t next;
  if constexpr (operation == atomic_add) {  // these are done in L2
    asm volatile("atom.global.add.u64 %0, [%1], 0;" : "=l"(next) : "l"(address) : "memory");
  } else if constexpr (place == first_level) {
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(address) : "memory");
  } else {
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(address) : "memory");
  }
  return next;
}

// The address behind 32 * rounds steps, and the clocks before and after them.
template <class Config, class Address>
__device__ __forceinline__ Address follow(Address start, int64_t (&span)[2], int rounds) {
  Address address = start;
  span[0] = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < 32; ++step) {
      const Address next = next_address<Config::place, Config::operation>(address);
      address = Config::operation == indexed_load ? start + next * 128 : next;
    }
  }
  span[1] = clock64();
  return address;
}

// order: by entry, the number of the next one. links: room for Config::entries entries of each CTA.
// out: by CTA, the number of the last entry. spans: by CTA, the first and the last clock.
template <class Config>
__device__ __forceinline__ void load_chain_kernel(const uint32_t* order, uint64_t* links,
                                                  uint32_t* out, int64_t* spans, int rounds) {
  constexpr int entries = Config::entries, entry_bytes = 128;
  static_assert(Config::operation != indexed_load || Config::place == own_smem);
  int64_t span[2] = {};
  if constexpr (Config::place == own_smem || Config::place == other_smem) {
    constexpr bool far = Config::place == other_smem;
    __shared__ __align__(128) uint32_t ring[entries * entry_bytes / 4];
    uint32_t mine = shared_address(ring), start = mine;
    if constexpr (far) {
      start = cluster_address(mine, cluster_rank() ^ 1);
      mine = cluster_address(mine, cluster_rank());  // as the other CTA, which follows it, sees it
    }
    for (int i = threadIdx.x; i < entries; i += Config::threads) {
      const bool indexed = Config::operation == indexed_load;
      ring[i * (entry_bytes / 4)] = indexed ? order[i] : mine + order[i] * entry_bytes;
    }
    __syncthreads();
    if constexpr (far) cluster_sync();
    if (threadIdx.x == 0) {
      follow<Config>(start, span, 2);  // which brings the instructions
      const uint32_t last = follow<Config>(start, span, rounds);
      out[blockIdx.x] = (last - start) / entry_bytes;
    }
    if constexpr (far) cluster_sync();  // an SM must not leave while the other one reads its SMEM
  } else {
    uint64_t* ring = links + blockIdx.x * (entries * entry_bytes / 8);
    const uint64_t start = __cvta_generic_to_global(ring);
    if (threadIdx.x == 0) {
      for (int i = 0; i < entries; ++i) {
        ring[i * (entry_bytes / 8)] = start + order[i] * entry_bytes;
      }
      __threadfence();
      follow<Config>(start, span, 2);  // which brings the lines
      const uint64_t last = follow<Config>(start, span, rounds);
      out[blockIdx.x] = static_cast<uint32_t>((last - start) / entry_bytes);
    }
  }
  if (threadIdx.x == 0) {
    spans[2 * blockIdx.x] = span[0];
    spans[2 * blockIdx.x + 1] = span[1];
  }
}

}  // namespace tilewright
