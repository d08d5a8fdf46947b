// The CTAs of a cluster, which share operands and the k of a tile (sm_90).
#pragma once
#include "ptx/cluster.cuh"
#include "types.cuh"

namespace tilewright {

// The place of this CTA in its cluster of cluster_m x cluster_n x split_k. Of those with the same
// part of k, CTAs with the same m share A, and those with the same n share B. Those with the same m
// and n make one tile, each the sum over its part of k.
//
//                  part 0              part 1
//                n 0      n 1        n 0      n 1
//       m 0    rank 0   rank 2     rank 4   rank 6
//       m 1    rank 1   rank 3     rank 5   rank 7
template <class Config>
struct ClusterPlace {
  static constexpr bool shares = Config::cluster_m * Config::cluster_n > 1;
  static constexpr int size = Config::cluster_m * Config::cluster_n * Config::split_k;
  int rank = 0, m = 0, n = 0, part = 0;

  __device__ __forceinline__ ClusterPlace() {
    if constexpr (size > 1) rank = cluster_rank();
    m = rank % Config::cluster_m;
    n = rank / Config::cluster_m;
    if constexpr (Config::split_k > 1) {
      n %= Config::cluster_n;
      part = rank / (Config::cluster_m * Config::cluster_n);
    }
  }

  // The rank of the CTA there that has the same part of k.
  __device__ __forceinline__ int rank_at(int its_m, int its_n) const {
    return its_m + Config::cluster_m * (its_n + Config::cluster_n * part);
  }

  // The rank of the CTA that makes the same tile and has another part of k.
  __device__ __forceinline__ int rank_of_part(int its_part) const {
    return rank + Config::cluster_m * Config::cluster_n * (its_part - part);
  }

  // Makes all threads that may touch this CTA's SMEM meet.
  static __device__ __forceinline__ void sync() {
    if constexpr (size > 1) {
      cluster_sync();
    } else {
      __syncthreads();
    }
  }
};

}  // namespace tilewright
