// The CTAs of a cluster that share operands (sm_90).
#pragma once
#include "ptx/cluster.cuh"
#include "types.cuh"

namespace tilewright {

// The place of this CTA in its cluster of cluster_m x cluster_n. CTAs with the same m share A, and
// those with the same n share B.
//
//                n 0      n 1
//       m 0    rank 0   rank 2
//       m 1    rank 1   rank 3
template <class Config>
struct ClusterPlace {
  static constexpr int size = Config::cluster_m * Config::cluster_n;
  int rank = 0, m = 0, n = 0;

  __device__ __forceinline__ ClusterPlace() {
    if constexpr (size > 1) {
      rank = cluster_rank();
      m = rank % Config::cluster_m;
      n = rank / Config::cluster_m;
    }
  }

  static __device__ __forceinline__ int rank_of(int m, int n) { return m + n * Config::cluster_m; }

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
