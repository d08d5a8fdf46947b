// Run-length encoding of a block: BlockDiscontinuity finds heads, BlockScan counts them,
// BlockExchange scatters.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_scan.cuh>

constexpr int THREADS = 64, ITEMS = 4, TILE = THREADS * ITEMS;

extern "C" __global__ void run_lengths(int* starts, int* counts, int* reversed, const int* in) {
  using Heads = cub::BlockDiscontinuity<int, THREADS>;
  using Scan = cub::BlockScan<int, THREADS>;
  using Exchange = cub::BlockExchange<int, THREADS, ITEMS>;
  __shared__ Heads::TempStorage heads_storage;
  __shared__ Scan::TempStorage scan_storage;
  __shared__ Exchange::TempStorage exchange_storage;
  int items[ITEMS], heads[ITEMS], ranks[ITEMS], total, first = blockIdx.x * TILE;
  for (int i = 0; i < ITEMS; i++) items[i] = in[first + threadIdx.x * ITEMS + i];
  Heads(heads_storage).FlagHeads(heads, items, cuda::std::not_equal_to<>{});
  Scan(scan_storage).ExclusiveSum(heads, ranks, total);
  for (int i = 0; i < ITEMS; i++)
    if (heads[i]) starts[first + ranks[i]] = threadIdx.x * ITEMS + i;
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
  for (int i = 0; i < ITEMS; i++) ranks[i] = TILE - 1 - (threadIdx.x * ITEMS + i);
  Exchange(exchange_storage).ScatterToStriped(items, ranks);
  for (int i = 0; i < ITEMS; i++) reversed[first + i * THREADS + threadIdx.x] = items[i];
}
