// Layer normalization: tiles of eight threads take a row each, and combine means and squares
// (Welford, Chan).
#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

extern "C" __global__ void layernorm(__nv_bfloat16* out, const __nv_bfloat16* in,
                                     const float* scale, const float* shift, int rows,
                                     int columns) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
  if (row >= rows) return;
  in += row * columns, out += row * columns;
  float count = 0, mean = 0, squares = 0;
  for (int i = tile.thread_rank(); i < columns; i += 8) {
    float value = __bfloat162float(in[i]), off = value - mean;
    count += 1;
    mean += off / count;
    squares += off * (value - mean);
  }
  for (int lanes = 1; lanes < 8; lanes *= 2) {
    float counts = tile.shfl_xor(count, lanes), off = tile.shfl_xor(mean, lanes) - mean;
    float others = tile.shfl_xor(squares, lanes), total = count + counts;
    if (total > 0) {
      squares += others + off * off * count * counts / total;
      mean += off * counts / total;
    }
    count = total;
  }
  float factor = rsqrtf(squares / count + 1e-5f);
  for (int i = tile.thread_rank(); i < columns; i += 8)
    out[i] = __float2bfloat16((__bfloat162float(in[i]) - mean) * factor * scale[i] + shift[i]);
}
