"""A matmul of any shape: tiles in an order that keeps their operands in L2, and masks at the edges."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, m, n, k, stride_a, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr,
    NO_EDGE: tl.constexpr = False,
):  # fmt: skip
    tiles_m = tl.cdiv(m, TILE_M)
    tiles_n = tl.cdiv(n, TILE_N)
    tile = tl.program_id(0)
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    rows = (first + tile % (GROUP * tiles_n) % height) * TILE_M + tl.arange(0, TILE_M)
    columns = tile % (GROUP * tiles_n) // height * TILE_N + tl.arange(0, TILE_N)
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, k, TILE_K):
        depth = start + tl.arange(0, TILE_K)
        if NO_EDGE:
            left = tl.load(a + rows[:, None] * stride_a + depth[None, :])  # reported: NO_EDGE
        else:
            inside = (rows[:, None] < m) & (depth[None, :] < k)
            left = tl.load(a + rows[:, None] * stride_a + depth[None, :], mask=inside, other=0.0)
        inside = (depth[:, None] < k) & (columns[None, :] < n)
        right = tl.load(b + depth[:, None] * n + columns[None, :], mask=inside, other=0.0)
        sums = tl.dot(left, right, sums)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.float16), mask=inside)
