// WarpReduce of segments, WarpScan of half warps, and WarpMergeSort.
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

struct Less {
  __device__ bool operator()(int a, int b) const { return a < b; }
};

extern "C" __global__ void warp_collectives(int* segments, int* scans, int* sorted, const int* in,
                                            const int* heads) {
  using Reduce = cub::WarpReduce<int>;
  using Scan = cub::WarpScan<int, 16>;
  using Sort = cub::WarpMergeSort<int, 2, 32>;
  __shared__ Reduce::TempStorage reduce[2];
  __shared__ Scan::TempStorage scan[4];
  __shared__ Sort::TempStorage sort[2];
  int i = threadIdx.x, warp = i / 32, value = in[i];
  int sum = Reduce(reduce[warp]).HeadSegmentedSum(value, heads[i]);
  if (heads[i]) segments[i] = sum;
  Scan(scan[i / 16]).InclusiveScan(value, scans[i], cuda::maximum<>{});
  int pair[2] = {value, -value};
  Sort(sort[warp]).Sort(pair, Less{});
  sorted[2 * i] = pair[0], sorted[2 * i + 1] = pair[1];
}
