"""A matmul of fp8 codes with a scale for each 1 x 128 of A and 128 x 128 of B."""

import triton
import triton.language as tl


@triton.jit
def block_scaled_matmul(
    a, b, scale_a, scale_b, c, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, BLOCK: tl.constexpr
):
    blocks = tl.cdiv(k, BLOCK)
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, BLOCK)
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for block in range(blocks):
        inside = block * BLOCK + depth < k
        left = tl.load(
            a + rows[:, None] * k + block * BLOCK + depth[None, :],
            mask=(rows[:, None] < m) & inside[None, :],
            other=0.0,
        )
        right = tl.load(
            b + columns[None, :] * k + block * BLOCK + depth[:, None],
            mask=(columns[None, :] < n) & inside[:, None],
            other=0.0,
        )
        row_scale = tl.load(scale_a + rows * blocks + block, mask=rows < m, other=0.0)
        column_scale = tl.load(scale_b + columns // BLOCK * blocks + block, mask=columns < n, other=0.0)
        sums += tl.dot(left, right) * row_scale[:, None] * column_scale[None, :]
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.bfloat16), mask=inside)
