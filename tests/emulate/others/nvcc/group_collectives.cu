// Cooperative groups: scans of tiles, coalesced and labeled groups, and a counter that each group
// increments once.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void group_collectives(int* scans, int* counts, int* kept, int* kept_count,
                                             const int* in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  scans[i] = cg::inclusive_scan(tile, value, cg::plus<int>());

  auto same = cg::labeled_partition(cg::coalesced_threads(), value & 7);
  if (same.thread_rank() == 0) atomicAdd(&counts[value & 7], same.num_threads());

  if (value > 0) {
    auto active = cg::coalesced_threads();
    int first = 0;
    if (active.thread_rank() == 0) first = atomicAdd(kept_count, active.num_threads());
    kept[active.shfl(first, 0) + active.thread_rank()] = value;
  }
}
