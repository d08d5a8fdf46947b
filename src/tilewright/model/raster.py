"""Orders in which CTAs take the tiles of out: the arithmetic of cuda/layout/raster.cuh in Python.

Each function takes a tile's number and the number of tiles along m and n, and returns its place (m, n) in tiles.
"""

from typing import Literal, get_args

TileOrder = Literal["row_major", "blocked", "hilbert"]
"""Orders that the ladder's persistent kernels accept."""

TILE_ORDERS: tuple[TileOrder, ...] = get_args(TileOrder)


def row_major_tile(index: int, tiles_m: int, tiles_n: int) -> tuple[int, int]:
    """Row by row."""
    return divmod(index, tiles_n)


def grouped_tile(index: int, tiles_m: int, tiles_n: int, group_m: int) -> tuple[int, int]:
    """Bands of `group_m` tile rows, each column by column."""
    band, in_band = divmod(index, min(group_m, tiles_m) * tiles_n)
    first_m = band * group_m
    n, m = divmod(in_band, min(group_m, tiles_m - first_m))
    return first_m + m, n


def blocked_tile(index: int, tiles_m: int, tiles_n: int, block_m: int, block_n: int) -> tuple[int, int]:
    """Blocks of `block_m` x `block_n` tiles, cut off at the edges: row by row, and row by row within each block."""
    band, in_band = divmod(index, min(block_m, tiles_m) * tiles_n)
    first_m = band * block_m
    height = min(block_m, tiles_m - first_m)
    block, in_block = divmod(in_band, height * min(block_n, tiles_n))
    first_n = block * block_n
    m, n = divmod(in_block, min(block_n, tiles_n - first_n))
    return first_m + m, first_n + n


def hilbert_tile(index: int, tiles_m: int, tiles_n: int) -> tuple[int, int]:
    """Along Hilbert's curve through the smallest square of 2^i x 2^i tiles that covers all tiles.

    Only tiles that exist are numbered. The curve goes through the quadrants of a square one after another: upper
    left, upper right, lower right, lower left. The first is transposed; the last is transposed and turned by 180
    degrees.
    """
    m = n = 0
    transposed = turned = False
    side = (1 << (max(tiles_m, tiles_n) - 1).bit_length()) // 2
    while side:
        for quadrant in range(4):
            lower, right = (quadrant in (2, 3)) ^ turned, (quadrant in (1, 2)) ^ turned
            if transposed:
                lower, right = right, lower
            quadrant_m, quadrant_n = m + lower * side, n + right * side
            tiles = max(min(tiles_m - quadrant_m, side), 0) * max(min(tiles_n - quadrant_n, side), 0)
            if index < tiles:
                break
            index -= tiles
        m, n = quadrant_m, quadrant_n
        transposed ^= quadrant in (0, 3)
        turned ^= quadrant == 3
        side //= 2
    return m, n
