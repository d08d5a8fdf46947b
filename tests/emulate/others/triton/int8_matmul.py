"""A matmul of int8 codes with a scale for each row of A and column of B, summed exactly in int32."""

import triton
import triton.language as tl


@triton.jit
def int8_matmul(a, b, scale_a, scale_b, c, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K)
    sums = tl.zeros((TILE_M, TILE_N), tl.int32)
    for start in range(0, k, TILE_K):
        left = tl.load(a + rows[:, None] * k + start + depth[None, :], mask=rows[:, None] < m, other=0)
        right = tl.load(b + columns[None, :] * k + start + depth[:, None], mask=columns[None, :] < n, other=0)
        sums = tl.dot(left, right, sums)
    row_scale = tl.load(scale_a + rows, mask=rows < m, other=0.0)
    column_scale = tl.load(scale_b + columns, mask=columns < n, other=0.0)
    result = sums.to(tl.float32) * row_scale[:, None] * column_scale[None, :]
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], result, mask=inside)
