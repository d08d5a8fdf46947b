// A transpose in CuTe: tiles of 64 x 64, a swizzled layout of shared memory, and vectors of four
// floats on both sides.
#include <cute/tensor.hpp>

using namespace cute;

extern "C" __global__ void cute_transpose(float* out, const float* in, int rows, int columns) {
  using Tile = Shape<_64, _64>;
  auto swizzled = composition(Swizzle<4, 2, 4>{}, Layout<Tile, Stride<_64, _1>>{});
  auto swapped = composition(swizzled, Layout<Tile, Stride<_64, _1>>{});
  __shared__ alignas(16) float memory[cosize_v<decltype(swizzled)>];
  auto source =
      make_tensor(make_gmem_ptr(in), make_shape(rows, columns), make_stride(columns, _1{}));
  auto target = make_tensor(make_gmem_ptr(out), make_shape(columns, rows), make_stride(rows, _1{}));
  auto tile = make_tensor(make_smem_ptr(memory), swizzled);
  auto transposed = make_tensor(make_smem_ptr(memory), swapped);
  auto from = local_tile(source, Tile{}, make_coord(blockIdx.y, blockIdx.x));
  auto to = local_tile(target, Tile{}, make_coord(blockIdx.x, blockIdx.y));

  auto copies =
      make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, float>{},
                      Layout<Shape<_16, _16>, Stride<_16, _1>>{}, Layout<Shape<_1, _4>>{});
  auto mine = copies.get_slice(threadIdx.x);
  copy(copies, mine.partition_S(from), mine.partition_D(tile));
#ifndef NO_SYNC
  __syncthreads();
#endif
  auto threads = Layout<Shape<_16, _16>, Stride<_16, _1>>{};
  // reported: NO_SYNC
  copy(local_partition(transposed, threads, threadIdx.x),
       local_partition(to, threads, threadIdx.x));
}
