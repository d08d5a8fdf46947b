"""A persistent matmul for Hopper: a scheduler hands out tiles, a warpgroup loads them, and two multiply and store.

While a tile is stored, the producer loads the next one. The stores go through two buffers in turn.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import PersistentTileSchedulerParams, StaticPersistentTileScheduler, hopper_helpers

TILE_M, TILE_N, TILE_K = 128, 128, 64
PART_N = 32
STAGES = 3
BUFFERS = 2
WARPGROUP = 128
CONSUMERS = 2 * WARPGROUP
DTYPE = cutlass.BFloat16


@cute.kernel
def multiply(
    load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor, store_c: cute.CopyAtom,
    c: cute.Tensor, mma: cute.TiledMma, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout, tiles: cutlass.Constexpr, faults: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    slots_a = smem.allocate_tensor(DTYPE, layout_a.outer, 1024, layout_a.inner)
    slots_b = smem.allocate_tensor(DTYPE, layout_b.outer, 1024, layout_b.inner)
    buffers = smem.allocate_tensor(DTYPE, layout_c.outer, 1024, layout_c.inner)
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=(TILE_M + TILE_N) * TILE_K * DTYPE.width // 8,
        barrier_storage=barriers,
    )
    of_a = cute.local_tile(a, (TILE_M, TILE_K), (None, None))
    of_b = cute.local_tile(b, (TILE_N, TILE_K), (None, None))
    of_c = cute.local_tile(c, (TILE_M, PART_N), (None, None))
    steps = cute.size(of_a, mode=[3])
    scheduler = StaticPersistentTileScheduler.create(
        PersistentTileSchedulerParams(tiles, (1, 1, 1)), cute.arch.block_idx(), cute.arch.grid_dim()
    )
    work = scheduler.initial_work_tile_info()

    if warp >= CONSUMERS // 32:
        cute.arch.setmaxregister_decrease(40)
        if warp == CONSUMERS // 32:
            into_a, from_a = cpasync.tma_partition(
                load_a, 0, cute.make_layout(1), cute.group_modes(slots_a, 0, 2), cute.group_modes(of_a, 0, 2)
            )
            into_b, from_b = cpasync.tma_partition(
                load_b, 0, cute.make_layout(1), cute.group_modes(slots_b, 0, 2), cute.group_modes(of_b, 0, 2)
            )
            filled = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
            while work.is_valid_tile:
                tile_m, tile_n, _ = work.tile_idx
                for step in range(steps):
                    ring.producer_acquire(filled)
                    full = ring.producer_get_barrier(filled)
                    cute.copy(load_a, from_a[None, tile_m, step], into_a[None, filled.index], tma_bar_ptr=full)
                    cute.copy(load_b, from_b[None, tile_n, step], into_b[None, filled.index], tma_bar_ptr=full)
                    ring.producer_commit(filled)
                    filled.advance()
                scheduler.advance_to_next_work()
                work = scheduler.get_current_work()
            ring.producer_tail(filled)
    else:
        cute.arch.setmaxregister_increase(232)
        mine = mma.get_slice(cute.arch.make_warp_uniform(thread // WARPGROUP) * WARPGROUP)
        left = mma.make_fragment_A(mine.partition_A(slots_a))
        right = mma.make_fragment_B(mine.partition_B(slots_b))
        sums = cute.make_rmem_tensor(mma.partition_shape_C((TILE_M, TILE_N)), cutlass.Float32)
        store = hopper_helpers.sm90_get_smem_store_op(LayoutEnum.ROW_MAJOR, DTYPE, cutlass.Float32)
        stored = cute.make_tiled_copy_S(store, cute.make_tiled_copy_C_atom(store, mma))
        copy = stored.get_slice(thread)
        into_buffers = copy.partition_D(buffers)
        rounded = cute.make_rmem_tensor(into_buffers[None, None, None, 0].shape, DTYPE)
        rows = cute.size(rounded)
        from_buffers, into_c = cpasync.tma_partition(
            store_c, 0, cute.make_layout(1), cute.group_modes(buffers, 0, 2), cute.group_modes(of_c, 0, 2)
        )
        stores = pipeline.PipelineTmaStore.create(
            num_stages=BUFFERS, producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS)
        )
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        if cutlass.const_expr("WRONG_PHASE" in faults):
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        while work.is_valid_tile:
            tile_m, tile_n, _ = work.tile_idx
            mma.set(warpgroup.Field.ACCUMULATE, False)
            for _ in range(steps):
                ring.consumer_wait(read)
                warpgroup.fence()
                for block in cutlass.range_constexpr(cute.size(left, mode=[2])):
                    part = (None, None, block, read.index)
                    cute.gemm(mma, sums, left[part], right[part], sums)  # reported: WRONG_PHASE
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                ring.consumer_release(read)
                read.advance()

            values = copy.retile(sums)
            for part in cutlass.range_constexpr(TILE_N // PART_N):
                for index in cutlass.range_constexpr(rows):
                    rounded[index] = values[part * rows + index].to(DTYPE)
                cute.copy(stored, rounded, into_buffers[None, None, None, part % BUFFERS])  # reported: NO_STORE_WAIT
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.barrier(barrier_id=1, number_of_threads=CONSUMERS)
                if warp == 0:
                    to = into_c[None, tile_m, tile_n * (TILE_N // PART_N) + part]
                    cute.copy(store_c, from_buffers[None, part % BUFFERS], to)
                    stores.producer_commit()
                    if cutlass.const_expr("NO_STORE_WAIT" not in faults):
                        stores.producer_acquire()
                cute.arch.barrier(barrier_id=1, number_of_threads=CONSUMERS)
            scheduler.advance_to_next_work()
            work = scheduler.get_current_work()
        if warp == 0:
            stores.producer_tail()


@cute.jit
def persistent_gemm(
    a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, CTAS: cutlass.Constexpr, NO_STORE_WAIT: cutlass.Constexpr = False,
    WRONG_PHASE: cutlass.Constexpr = False,
):  # fmt: skip
    """c = a @ b.T for a (m, k), b (n, k) and c (m, n), all row-major."""
    row_major = LayoutEnum.ROW_MAJOR
    major = row_major.sm90_mma_major_mode()
    mma = hopper_helpers.make_trivial_tiled_mma(DTYPE, DTYPE, major, major, cutlass.Float32, (2, 1, 1), (64, TILE_N))
    shape = (TILE_M, TILE_N, TILE_K)
    layout_a = hopper_helpers.make_smem_layout_a(row_major, shape, DTYPE, STAGES)
    layout_b = hopper_helpers.make_smem_layout_b(row_major, shape, DTYPE, STAGES)
    layout_c = hopper_helpers.make_smem_layout_epi(DTYPE, row_major, (TILE_M, PART_N), BUFFERS)
    load = cpasync.CopyBulkTensorTileG2SOp()
    load_a, tiled_a = cpasync.make_tiled_tma_atom(load, a, cute.select(layout_a, [0, 1]), (TILE_M, TILE_K))
    load_b, tiled_b = cpasync.make_tiled_tma_atom(load, b, cute.select(layout_b, [0, 1]), (TILE_N, TILE_K))
    store_c, tiled_c = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), c, cute.select(layout_c, [0, 1]), (TILE_M, PART_N)
    )
    tiles = cute.ceil_div(c.shape[0], TILE_M), cute.ceil_div(c.shape[1], TILE_N), 1
    named = {"NO_STORE_WAIT": NO_STORE_WAIT, "WRONG_PHASE": WRONG_PHASE}
    multiply(
        load_a, tiled_a, load_b, tiled_b, store_c, tiled_c, mma, layout_a, layout_b, layout_c, tiles,
        tuple(name for name, wanted in named.items() if wanted),
    ).launch(
        grid=[1, 1, CTAS], block=[CONSUMERS + WARPGROUP, 1, 1], min_blocks_per_mp=1
    )  # fmt: skip
