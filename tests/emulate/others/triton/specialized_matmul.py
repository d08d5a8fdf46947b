"""A persistent matmul with a producer that loads with TMA, and consumers that multiply."""

import triton
import triton.language as tl


@triton.jit
def specialized_matmul(
    a, b, c, m, n, k, PROGRAMS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr
):
    a_map = tl.make_tensor_descriptor(a, [m, k], [k, 1], [TILE_M, TILE_K])
    b_map = tl.make_tensor_descriptor(b, [n, k], [k, 1], [TILE_N, TILE_K])
    c_map = tl.make_tensor_descriptor(c, [m, n], [n, 1], [TILE_M, TILE_N])
    tiles_n = tl.cdiv(n, TILE_N)
    tiles = tl.cdiv(m, TILE_M) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, warp_specialize=True):
        row = tile // tiles_n * TILE_M
        column = tile % tiles_n * TILE_N
        sums = tl.zeros((TILE_M, TILE_N), tl.float32)
        for start in range(0, k, TILE_K):
            left = a_map.load([row, start])
            right = b_map.load([column, start])
            sums = tl.dot(left, right.T, sums)
        c_map.store([row, column], sums.to(tl.float16))
