"""A persistent matmul in Gluon: a producer warp fills a ring by TMA, and a warpgroup multiplies what has arrived."""

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
def produce(a, b, slots_a, slots_b, full, empty, tiles, tiles_n, k):
    SLOTS: gl.constexpr = slots_a.shape[0]
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile // tiles_n * a.block_shape[0]
        column = tile % tiles_n * b.block_shape[1]
        for start in range(0, k, a.block_shape[1]):
            slot = step % SLOTS
            mbarrier.wait(empty.index(slot), (step // SLOTS & 1) ^ 1)
            mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [row, start], full.index(slot), slots_a.index(slot))
            tma.async_load(b, [start, column], full.index(slot), slots_b.index(slot))
            step += 1


@gluon.jit
def consume(c, slots_a, slots_b, full, empty, staged, tiles, tiles_n, k, EARLY_RELEASE, NO_STORE_WAIT):
    SLOTS: gl.constexpr = slots_a.shape[0]
    TILE_M: gl.constexpr = slots_a.shape[1]
    TILE_K: gl.constexpr = slots_a.shape[2]
    TILE_N: gl.constexpr = slots_b.shape[2]
    of_sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE_N, 16])
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        sums = gl.zeros([TILE_M, TILE_N], gl.float32, of_sums)
        for _ in range(0, k, TILE_K):
            slot = step % SLOTS
            mbarrier.wait(full.index(slot), step // SLOTS & 1)
            left = slots_a.index(slot)
            sums = warpgroup_mma(left, slots_b.index(slot), sums, is_async=True)  # reported: EARLY_RELEASE
            if EARLY_RELEASE:
                mbarrier.arrive(empty.index(slot), count=1)
                sums = warpgroup_mma_wait(0, deps=[sums])
            else:
                sums = warpgroup_mma_wait(0, deps=[sums])
                mbarrier.arrive(empty.index(slot), count=1)
            step += 1
        if not NO_STORE_WAIT:
            tma.store_wait(0)
        staged.store(sums.to(gl.float16))  # reported: NO_STORE_WAIT
        fence_async_shared()
        tma.async_store(c, [tile // tiles_n * TILE_M, tile % tiles_n * TILE_N], staged)
    tma.store_wait(0)


@gluon.jit
def specialized_matmul(
    a, b, c, m, n, k, TILE_M: gl.constexpr, TILE_N: gl.constexpr, TILE_K: gl.constexpr, SLOTS: gl.constexpr,
    EARLY_RELEASE: gl.constexpr = False, NO_STORE_WAIT: gl.constexpr = False,
):  # fmt: skip
    of_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_M, TILE_K], gl.float16)
    of_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_K, TILE_N], gl.float16)
    of_c: gl.constexpr = gl.NVMMASharedLayout.get_default_for([TILE_M, TILE_N], gl.float16)
    a_map = tma.make_tensor_descriptor(a, [m, k], [k, 1], [TILE_M, TILE_K], of_a)
    b_map = tma.make_tensor_descriptor(b, [k, n], [n, 1], [TILE_K, TILE_N], of_b)
    c_map = tma.make_tensor_descriptor(c, [m, n], [n, 1], [TILE_M, TILE_N], of_c)
    slots_a = gl.allocate_shared_memory(gl.float16, [SLOTS, TILE_M, TILE_K], of_a)
    slots_b = gl.allocate_shared_memory(gl.float16, [SLOTS, TILE_K, TILE_N], of_b)
    staged = gl.allocate_shared_memory(gl.float16, [TILE_M, TILE_N], of_c)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    fence_async_shared()
    tiles_n = gl.cdiv(n, TILE_N)
    tiles = gl.cdiv(m, TILE_M) * tiles_n
    gl.warp_specialize(
        [
            (consume, (c_map, slots_a, slots_b, full, empty, staged, tiles, tiles_n, k, EARLY_RELEASE, NO_STORE_WAIT)),
            (produce, (a_map, b_map, slots_a, slots_b, full, empty, tiles, tiles_n, k)),
        ],
        [1],
        [24],
    )
