// BlockLoad, BlockScan and BlockStore through one piece of shared memory; a tile may be partly
// full.
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

constexpr int THREADS = 64, ITEMS = 5, TILE = THREADS * ITEMS;
using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
using Scan = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_RAKING>;
using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;

extern "C" __global__ void block_scan(int* out, int* totals, const int* in, int count) {
  __shared__ union {
    Load::TempStorage load;
    Scan::TempStorage scan;
    Store::TempStorage store;
  } shared;
  int first = blockIdx.x * TILE, left = min(TILE, count - first), items[ITEMS], total;
  Load(shared.load).Load(in + first, items, left, 0);
  __syncthreads();
  Scan(shared.scan).ExclusiveSum(items, items, total);
#ifndef NO_SYNC
  __syncthreads();
#endif
  Store(shared.store).Store(out + first, items, left);  // reported: NO_SYNC
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}
