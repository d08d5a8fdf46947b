"""A matmul for Hopper: a warp loads tiles with TMA, and a warpgroup multiplies them.

A cluster of CTAs shares its loads: those of one row of tiles share A, those of one column share B.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

TILE_M, TILE_N, TILE_K = 64, 64, 64
CONSUMERS = 128
PRODUCER = CONSUMERS // 32
DTYPE = cutlass.Float16


@cute.kernel
def multiply(
    load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom, b: cute.Tensor, store_c: cute.CopyAtom,
    c: cute.Tensor, mma: cute.TiledMma, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout,
    layout_c: cute.ComposedLayout, cluster: cute.Layout, faults: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_m, tile_n, _ = cute.arch.block_idx()
    _, place_m, place_n, _ = cluster.get_flat_coord(cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster()))
    _, cluster_m, cluster_n, _ = cluster.shape
    stages = cute.size(layout_a, mode=[2])
    nbytes = cute.size_in_bytes(DTYPE, cute.select(layout_a, [0, 1])) + cute.size_in_bytes(
        DTYPE, cute.select(layout_b, [0, 1])
    )

    smem = SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * stages)
    slots_a = smem.allocate_tensor(DTYPE, layout_a.outer, 1024, layout_a.inner)
    slots_b = smem.allocate_tensor(DTYPE, layout_b.outer, 1024, layout_b.inner)
    staged = smem.allocate_tensor(DTYPE, layout_c.outer, 1024, layout_c.inner)
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32 * (cluster_m + cluster_n - 1)),
        tx_count=nbytes,
        barrier_storage=barriers,
        cta_layout_vmnk=cluster,
    )

    of_a = cute.local_tile(a, (TILE_M, TILE_K), (tile_m, None))
    of_b = cute.local_tile(b, (TILE_N, TILE_K), (tile_n, None))
    of_c = cute.local_tile(c, (TILE_M, TILE_N), (tile_m, tile_n))
    steps = cute.size(of_a, mode=[2])

    if warp == PRODUCER:
        into_a, from_a = cpasync.tma_partition(
            load_a, place_n, cute.make_layout(cluster_n), cute.group_modes(slots_a, 0, 2), cute.group_modes(of_a, 0, 2)
        )
        into_b, from_b = cpasync.tma_partition(
            load_b, place_m, cute.make_layout(cluster_m), cute.group_modes(slots_b, 0, 2), cute.group_modes(of_b, 0, 2)
        )
        to_row = to_column = None
        if cutlass.const_expr(cluster_n > 1):
            to_row = cpasync.create_tma_multicast_mask(cluster, (0, place_m, place_n, 0), mcast_mode=2)
        if cutlass.const_expr(cluster_m > 1):
            to_column = cpasync.create_tma_multicast_mask(cluster, (0, place_m, place_n, 0), mcast_mode=1)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, stages)
        for step in range(steps):
            ring.producer_acquire(state)
            full = ring.producer_get_barrier(state)
            cute.copy(load_a, from_a[None, step], into_a[None, state.index], tma_bar_ptr=full, mcast_mask=to_row)
            cute.copy(load_b, from_b[None, step], into_b[None, state.index], tma_bar_ptr=full, mcast_mask=to_column)
            ring.producer_commit(state)
            state.advance()
        ring.producer_tail(state)
    else:
        mine = mma.get_slice(thread)
        left = mma.make_fragment_A(mine.partition_A(slots_a))
        right = mma.make_fragment_B(mine.partition_B(slots_b))
        sums = cute.make_rmem_tensor(mine.partition_C(of_c).shape, cutlass.Float32)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, stages)
        for _ in range(steps):
            ring.consumer_wait(state)
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(left, mode=[2])):
                part = (None, None, block, state.index)
                cute.gemm(mma, sums, left[part], right[part], sums)  # reported: EARLY_RELEASE
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            if cutlass.const_expr("EARLY_RELEASE" in faults):
                ring.consumer_release(state)
                warpgroup.wait_group(0)
            else:
                warpgroup.wait_group(0)
                ring.consumer_release(state)
            state.advance()

        store = hopper_helpers.sm90_get_smem_store_op(LayoutEnum.ROW_MAJOR, DTYPE, cutlass.Float32)
        copy = cute.make_tiled_copy_C(store, mma).get_slice(thread)
        rounded = cute.make_rmem_tensor(sums.layout, DTYPE)
        rounded.store(sums.load().to(DTYPE))
        cute.copy(store, copy.retile(rounded), copy.partition_D(staged)[None, None, None, 0])
        if cutlass.const_expr("NO_FENCE" not in faults):
            cute.arch.fence_proxy("async.shared", space="cta")
        if cutlass.const_expr("NO_BARRIER" not in faults):
            cute.arch.barrier(barrier_id=1, number_of_threads=CONSUMERS)
        if warp == 0:
            from_c, into_c = cpasync.tma_partition(
                store_c, 0, cute.make_layout(1), cute.group_modes(staged, 0, 2), cute.group_modes(of_c, 0, 2)
            )
            cute.copy(store_c, from_c[None, 0], into_c)  # reported: NO_FENCE, NO_BARRIER
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def tma_gemm(
    a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, STAGES: cutlass.Constexpr, CLUSTER: cutlass.Constexpr,
    EARLY_RELEASE: cutlass.Constexpr = False, NO_FENCE: cutlass.Constexpr = False,
    NO_BARRIER: cutlass.Constexpr = False,
):  # fmt: skip
    """c = a @ b.T for a (m, k), b (n, k) and c (m, n), all row-major."""
    row_major = LayoutEnum.ROW_MAJOR
    major = row_major.sm90_mma_major_mode()
    mma = hopper_helpers.make_trivial_tiled_mma(DTYPE, DTYPE, major, major, cutlass.Float32, (1, 1, 1), (64, TILE_N))
    shape = (TILE_M, TILE_N, TILE_K)
    layout_a = hopper_helpers.make_smem_layout_a(row_major, shape, DTYPE, STAGES)
    layout_b = hopper_helpers.make_smem_layout_b(row_major, shape, DTYPE, STAGES)
    layout_c = hopper_helpers.make_smem_layout_epi(DTYPE, row_major, (TILE_M, TILE_N), 1)
    single, shared = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileG2SMulticastOp()
    load_a, tiled_a = cpasync.make_tiled_tma_atom(
        shared if CLUSTER[1] > 1 else single, a, cute.select(layout_a, [0, 1]), (TILE_M, TILE_K), CLUSTER[1]
    )
    load_b, tiled_b = cpasync.make_tiled_tma_atom(
        shared if CLUSTER[0] > 1 else single, b, cute.select(layout_b, [0, 1]), (TILE_N, TILE_K), CLUSTER[0]
    )
    store_c, tiled_c = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), c, cute.select(layout_c, [0, 1]), (TILE_M, TILE_N)
    )
    named = {"EARLY_RELEASE": EARLY_RELEASE, "NO_FENCE": NO_FENCE, "NO_BARRIER": NO_BARRIER}
    multiply(
        load_a, tiled_a, load_b, tiled_b, store_c, tiled_c, mma, layout_a, layout_b, layout_c,
        cute.make_layout((1, *CLUSTER, 1)), tuple(name for name, wanted in named.items() if wanted),
    ).launch(
        grid=[cute.ceil_div(c.shape[0], TILE_M), cute.ceil_div(c.shape[1], TILE_N), 1],
        block=[CONSUMERS + 32, 1, 1],
        cluster=[*CLUSTER, 1],
    )  # fmt: skip
