// A filter of 3 x 3: TMA loads tiles with a halo, and zeros where the halo leaves the image; stores
// by TMA.
#include "hopper.cuh"

constexpr int SIDE = 16,
              ROW = 24;  // TMA starts at whole pieces of 16 bytes, four pixels before the tile

extern "C" __global__ void tma_stencil(const __grid_constant__ CUtensorMap out,
                                       const __grid_constant__ CUtensorMap in, const int* filter) {
  __shared__ alignas(128) int tile[SIDE + 2][ROW];
  __shared__ alignas(128) int result[SIDE][SIDE];
  __shared__ uint64_t loaded;
  int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, x = threadIdx.x % SIDE,
      y = threadIdx.x / SIDE;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&loaded, 1);
    expect(&loaded, sizeof(tile));
    load_box(tile, &in, x0 - 4, y0 - 1, &loaded);
  }
#ifndef NO_BARRIER
  __syncthreads();
#endif
  wait(&loaded, 0);  // reported: NO_BARRIER
  int sum = 0;
  for (int i = 0; i < 9; i++) sum += filter[i] * tile[y + i / 3][x + 3 + i % 3];
  result[y][x] = sum;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int at[2] = {x0, y0};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, at, result);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
