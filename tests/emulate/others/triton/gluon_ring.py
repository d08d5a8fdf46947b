"""A matmul in Gluon: TMA fills a ring of slots, wgmma reads them, and TMA stores the result."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def ring_matmul(
    a, b, c, m, n, k, TILE_M: gl.constexpr, TILE_N: gl.constexpr, TILE_K: gl.constexpr, SLOTS: gl.constexpr,
    LATE_WAIT: gl.constexpr = False, WRONG_PHASE: gl.constexpr = False,
):  # fmt: skip
    of_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_M, TILE_K], gl.float16)
    of_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_K, TILE_N], gl.float16)
    of_c: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_M, TILE_N], gl.float16)
    of_sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE_N, 16])
    a_map = tma.make_tensor_descriptor(a, [m, k], [k, 1], [TILE_M, TILE_K], of_a)
    b_map = tma.make_tensor_descriptor(b, [k, n], [n, 1], [TILE_K, TILE_N], of_b)
    c_map = tma.make_tensor_descriptor(c, [m, n], [n, 1], [TILE_M, TILE_N], of_c)
    row = gl.program_id(0) * TILE_M
    column = gl.program_id(1) * TILE_N

    slots_a = gl.allocate_shared_memory(gl.float16, [SLOTS, TILE_M, TILE_K], of_a)
    slots_b = gl.allocate_shared_memory(gl.float16, [SLOTS, TILE_K, TILE_N], of_b)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(SLOTS):
        mbarrier.init(full.index(each), count=1)
    fence_async_shared()

    steps = gl.cdiv(k, TILE_K)
    for each in gl.static_range(SLOTS - 1):
        mbarrier.expect(full.index(each), a_map.nbytes_per_cta + b_map.nbytes_per_cta, pred=each < steps)
        tma.async_load(a_map, [row, each * TILE_K], full.index(each), slots_a.index(each), pred=each < steps)
        tma.async_load(b_map, [each * TILE_K, column], full.index(each), slots_b.index(each), pred=each < steps)

    sums = gl.zeros([TILE_M, TILE_N], gl.float32, of_sums)
    for step in range(steps):
        slot = step % SLOTS
        if WRONG_PHASE:
            mbarrier.wait(full.index(slot), step // SLOTS + 1 & 1)
        else:
            mbarrier.wait(full.index(slot), step // SLOTS & 1)
        sums = warpgroup_mma(slots_a.index(slot), slots_b.index(slot), sums, is_async=True)  # reported: WRONG_PHASE
        if not LATE_WAIT:
            sums = warpgroup_mma_wait(0, deps=[sums])
        ahead = step + SLOTS - 1
        free = ahead % SLOTS
        more = ahead < steps
        mbarrier.expect(full.index(free), a_map.nbytes_per_cta + b_map.nbytes_per_cta, pred=more)
        into_a = slots_a.index(free)
        into_b = slots_b.index(free)
        tma.async_load(a_map, [row, ahead * TILE_K], full.index(free), into_a, pred=more)  # reported: LATE_WAIT
        tma.async_load(b_map, [ahead * TILE_K, column], full.index(free), into_b, pred=more)
        if LATE_WAIT:
            sums = warpgroup_mma_wait(1, deps=[sums])
    sums = warpgroup_mma_wait(0, deps=[sums])

    tile = gl.allocate_shared_memory(gl.float16, [TILE_M, TILE_N], of_c)
    tile.store(sums.to(gl.float16))
    fence_async_shared()
    tma.async_store(c_map, [row, column], tile)
    tma.store_wait(0)
