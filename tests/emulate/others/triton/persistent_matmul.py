"""A persistent matmul: each program walks over tiles of the result and reads and writes them with TMA."""

import triton
import triton.language as tl


@triton.jit
def persistent_matmul(a, b, c, m, n, k, PROGRAMS: tl.constexpr):
    tile_m: tl.constexpr = a.block_shape[0]
    tile_n: tl.constexpr = b.block_shape[0]
    tile_k: tl.constexpr = a.block_shape[1]
    tiles_n = tl.cdiv(n, tile_n)
    tiles = tl.cdiv(m, tile_m) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        row = tile // tiles_n * tile_m
        column = tile % tiles_n * tile_n
        sums = tl.zeros((tile_m, tile_n), tl.float32)
        for start in range(0, k, tile_k):
            left = a.load([row, start])
            right = b.load([column, start])
            sums = tl.dot(left, right.T, sums)
        c.store([row, column], sums.to(c.dtype))
