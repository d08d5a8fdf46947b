// A scan of a grid by CUB's decoupled look-back: BlockScan asks a TilePrefixCallbackOp for the sum
// of tiles before.
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_scan.cuh>

constexpr int THREADS = 64, ITEMS = 4, TILE = THREADS * ITEMS;
using State = cub::ScanTileState<int>;

extern "C" __global__ void grid_scan(int* out, const int* in, unsigned long long* memory, int tiles,
                                     int* prepared) {
  using Scan = cub::BlockScan<int, THREADS>;
  using Prefix = cub::TilePrefixCallbackOp<int, cuda::std::plus<>, State>;
  __shared__ Scan::TempStorage scan_storage;
  __shared__ Prefix::TempStorage prefix_storage;
  State state;
  state.Init(tiles, memory, 0);
  if (blockIdx.x == gridDim.x - 1) {  // what another launch would do first
    state.InitializeStatus(tiles);
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.s32 [%0], 1;" ::"l"(prepared) : "memory");
    return;
  }
  if (threadIdx.x == 0) {
    int seen;
    do asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(seen) : "l"(prepared) : "memory");
    while (!seen);
  }
  __syncthreads();
  int items[ITEMS], first = blockIdx.x * TILE + threadIdx.x * ITEMS;
  for (int i = 0; i < ITEMS; i++) items[i] = in[first + i];
  if (blockIdx.x == 0) {
    int total;
    Scan(scan_storage).InclusiveSum(items, items, total);
    if (threadIdx.x == 0) state.SetInclusive(0, total);
  } else {
    Prefix prefix(state, prefix_storage, cuda::std::plus<>{}, blockIdx.x);
    Scan(scan_storage).InclusiveSum(items, items, prefix);
  }
  for (int i = 0; i < ITEMS; i++) out[first + i] = items[i];
}
