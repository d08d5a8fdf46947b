"""A matmul of fp16 activations and weights of 4 bits, which are decoded in registers.

A word holds eight codes of consecutive k; a group of GROUP rows of B shares a scale and a zero point per column.
"""

import triton
import triton.language as tl


@triton.jit
def w4a16_matmul(
    x, codes, scales, zeros, out, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, GROUP: tl.constexpr
):
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, GROUP)
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for group in range(k // GROUP):
        at = group * GROUP + depth
        left = tl.load(x + rows[:, None] * k + at[None, :], mask=rows[:, None] < m, other=0.0)
        words = tl.load(codes + (at // 8)[:, None] * n + columns[None, :])
        code = (words >> (at % 8 * 4)[:, None]) & 15
        scale = tl.load(scales + group * n + columns)
        zero = tl.load(zeros + group * n + columns)
        right = (code.to(tl.float16) - zero[None, :]) * scale[None, :]
        sums = tl.dot(left, right, sums)
    tl.store(out + rows[:, None] * n + columns[None, :], sums.to(tl.float16), mask=rows[:, None] < m)
