"""A matmul whose programs each sum a part of k and add it to the result with atomics."""

import triton
import triton.language as tl


@triton.jit
def split_k_matmul(
    a, b, c, n, k, PARTS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
    NO_ATOMIC: tl.constexpr = False,
):  # fmt: skip
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    part = tl.program_id(2)
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(part * TILE_K, k, PARTS * TILE_K):
        depth = start + tl.arange(0, TILE_K)
        left = tl.load(a + rows[:, None] * k + depth[None, :])
        right = tl.load(b + depth[:, None] * n + columns[None, :])
        sums = tl.dot(left, right, sums)
    where = c + rows[:, None] * n + columns[None, :]
    if NO_ATOMIC:
        tl.store(where, tl.load(where) + sums)  # reported: NO_ATOMIC
    else:
        tl.atomic_add(where, sums, sem="relaxed")
