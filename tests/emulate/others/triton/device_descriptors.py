"""A matmul of a batch whose programs make their own tensor maps in memory."""

import triton
import triton.language as tl


@triton.jit
def batched_matmul(
    a, b, c, m, n, k, stride_a, stride_b, stride_c, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr
):
    batch = tl.program_id(1)
    tiles_n = tl.cdiv(n, TILE_N)
    row = tl.program_id(0) // tiles_n * TILE_M
    column = tl.program_id(0) % tiles_n * TILE_N
    a_map = tl.make_tensor_descriptor(a + batch * m * stride_a, [m, k], [stride_a, 1], [TILE_M, TILE_K])
    b_map = tl.make_tensor_descriptor(b + batch * k * stride_b, [k, n], [stride_b, 1], [TILE_K, TILE_N])
    c_map = tl.make_tensor_descriptor(c + batch * m * stride_c, [m, n], [stride_c, 1], [TILE_M, TILE_N])
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, k, TILE_K):
        sums = tl.dot(a_map.load([row, start]), b_map.load([start, column]), sums)
    c_map.store([row, column], sums.to(tl.bfloat16))
