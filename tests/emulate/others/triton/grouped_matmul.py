"""Products of groups of rows with a matrix each; persistent programs look up whose tile they compute."""

import triton
import triton.language as tl


@triton.jit
def grouped_matmul(
    a, b, c, ends, groups, n, k, PROGRAMS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
    TILE_K: tl.constexpr, NO_END: tl.constexpr = False,
):  # fmt: skip
    tiles_n = tl.cdiv(n, TILE_N)
    tile = tl.program_id(0)
    first_tile = 0
    begin = 0
    for group in range(groups):
        end = tl.load(ends + group)
        tiles = tl.cdiv(end - begin, TILE_M) * tiles_n
        while tile >= first_tile and tile < first_tile + tiles:
            rows = begin + (tile - first_tile) // tiles_n * TILE_M + tl.arange(0, TILE_M)
            columns = (tile - first_tile) % tiles_n * TILE_N + tl.arange(0, TILE_N)
            depth = tl.arange(0, TILE_K)
            sums = tl.zeros((TILE_M, TILE_N), tl.float32)
            for start in range(0, k, TILE_K):
                left = tl.load(a + rows[:, None] * k + start + depth[None, :], mask=rows[:, None] < end, other=0.0)
                right = tl.load(
                    b + (group * k + start + depth[:, None]) * n + columns[None, :],
                    mask=columns[None, :] < n,
                    other=0.0,
                )
                sums = tl.dot(left, right, sums)
            where = c + rows[:, None] * n + columns[None, :]
            if NO_END:  # rows of the next group, which another program computes
                tl.store(where, sums.to(tl.bfloat16), mask=columns[None, :] < n)  # reported: NO_END
            else:
                tl.store(where, sums.to(tl.bfloat16), mask=(rows[:, None] < end) & (columns[None, :] < n))
            tile += PROGRAMS
        first_tile += tiles
        begin = end
