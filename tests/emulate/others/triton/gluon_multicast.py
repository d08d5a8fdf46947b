"""Doubles tiles in Gluon: one load brings a tile to both CTAs of a cluster, and each of them stores a half."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def double_tiles(x, out, tiles, ROWS: gl.constexpr, COLUMNS: gl.constexpr, EARLY_REFILL: gl.constexpr = False):
    both: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    read: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0], cga_layout=[[0, 0]])
    tile_map = tma.make_tensor_descriptor(x, [tiles * ROWS, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS], both)
    tile = gl.allocate_shared_memory(gl.float16, [ROWS, COLUMNS], both)
    arrived = mbarrier.allocate_mbarrier()
    mbarrier.init(arrived, count=1)
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    row = gl.arange(0, ROWS, gl.SliceLayout(1, read))
    column = gl.arange(0, COLUMNS, gl.SliceLayout(0, read))
    for index in range(tiles):
        mbarrier.expect(arrived, tile_map.nbytes_per_cta)
        # reported: EARLY_REFILL
        tma.async_load(tile_map, [index * ROWS, 0], arrived, tile, multicast=True)
        mbarrier.wait(arrived, index & 1)
        values = tile.load(read)
        if not EARLY_REFILL:
            gl.barrier(cluster=True)
        place = (index * ROWS + row[:, None]) * COLUMNS + column[None, :]
        gl.store(out + place, values * 2)
    if EARLY_REFILL:
        gl.barrier(cluster=True)
