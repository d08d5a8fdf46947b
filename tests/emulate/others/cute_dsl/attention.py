"""Attention for Hopper: scores stay in registers, as the left operand of the second wgmma.

A warp loads the queries once, and then keys and values into a ring, with TMA. A warpgroup multiplies queries and keys,
keeps the maximum and the sum of each row, and multiplies the weights and the values.
"""

import math

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

ROWS, KEYS, HEAD = 64, 64, 64
STAGES = 2
CONSUMERS = 128
PRODUCER = CONSUMERS // 32
DTYPE = cutlass.Float16
TILE_BYTES = KEYS * HEAD * DTYPE.width // 8


@cute.jit
def of_quad(value, combine: cutlass.Constexpr):
    """The combination of the four threads that share a row."""
    for lane in cutlass.range_constexpr(2):
        value = combine(value, cute.arch.shuffle_sync_bfly(value, 1 << lane))
    return value


@cute.jit
def softened(scores: cute.Tensor, highest: cute.Tensor, totals: cute.Tensor, result: cute.Tensor):
    """Turn scores into weights, and scale what was summed before to the new maximum of each row."""
    columns, blocks = cute.size(scores, mode=[0, 0]), cute.size(scores, mode=[0, 2])
    for row in cutlass.range_constexpr(2):
        top = highest[row]
        for block in cutlass.range_constexpr(blocks):
            for column in cutlass.range_constexpr(columns):
                top = cute.arch.fmax(top, scores[(column, row, block), 0, 0])
        top = of_quad(top, cute.arch.fmax)
        shrink = cute.math.exp2(highest[row] - top)
        total = totals[row] * shrink
        for block in cutlass.range_constexpr(blocks):
            for column in cutlass.range_constexpr(columns):
                weight = cute.math.exp2(scores[(column, row, block), 0, 0] - top)
                scores[(column, row, block), 0, 0] = weight
                total += weight
        for block in cutlass.range_constexpr(cute.size(result, mode=[0, 2])):
            for column in cutlass.range_constexpr(columns):
                result[(column, row, block), 0, 0] = result[(column, row, block), 0, 0] * shrink
        highest[row], totals[row] = top, total


@cute.kernel
def attend(
    load_q: cute.CopyAtom, q: cute.Tensor, load_k: cute.CopyAtom, k: cute.Tensor, load_v: cute.CopyAtom, v: cute.Tensor,
    out: cute.Tensor, mma_qk: cute.TiledMma, mma_pv: cute.TiledMma, layout_q: cute.ComposedLayout,
    layout_k: cute.ComposedLayout, layout_v: cute.ComposedLayout, faults: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    loaded = smem.allocate_array(cutlass.Int64, 1)
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    queries = smem.allocate_tensor(DTYPE, layout_q.outer, 1024, layout_q.inner)
    keys = smem.allocate_tensor(DTYPE, layout_k.outer, 1024, layout_k.inner)
    values = smem.allocate_tensor(DTYPE, layout_v.outer, 1024, layout_v.inner)
    if thread == 0:
        cute.arch.mbarrier_init(loaded, 1)
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=2 * TILE_BYTES,
        barrier_storage=barriers,
    )
    of_q = cute.local_tile(q, (ROWS, HEAD), (tile, 0))
    of_k = cute.local_tile(k, (KEYS, HEAD), (None, 0))
    of_v = cute.local_tile(v, (HEAD, KEYS), (0, None))
    of_out = cute.local_tile(out, (ROWS, HEAD), (tile, 0))
    steps = cute.size(of_k, mode=[2])

    if warp == PRODUCER:
        alone = cute.make_layout(1)
        into_q, from_q = cpasync.tma_partition(
            load_q, 0, alone, cute.group_modes(queries, 0, 2), cute.group_modes(of_q, 0, 2)
        )
        into_k, from_k = cpasync.tma_partition(
            load_k, 0, alone, cute.group_modes(keys, 0, 2), cute.group_modes(of_k, 0, 2)
        )
        into_v, from_v = cpasync.tma_partition(
            load_v, 0, alone, cute.group_modes(values, 0, 2), cute.group_modes(of_v, 0, 2)
        )
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(loaded, ROWS * HEAD * DTYPE.width // 8)
        cute.copy(load_q, from_q, into_q[None, 0], tma_bar_ptr=loaded)
        filled = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for step in range(steps):
            ring.producer_acquire(filled)
            full = ring.producer_get_barrier(filled)
            cute.copy(load_k, from_k[None, step], into_k[None, filled.index], tma_bar_ptr=full)
            cute.copy(load_v, from_v[None, step], into_v[None, filled.index], tma_bar_ptr=full)
            ring.producer_commit(filled)
            filled.advance()
        ring.producer_tail(filled)
    else:
        mine = mma_qk.get_slice(thread)
        left = mma_qk.make_fragment_A(mine.partition_A(queries))
        right = mma_qk.make_fragment_B(mine.partition_B(keys))
        below = mma_pv.make_fragment_B(mma_pv.get_slice(thread).partition_B(values))
        scores = cute.make_rmem_tensor(mma_qk.partition_shape_C((ROWS, KEYS)), cutlass.Float32)
        result = cute.make_rmem_tensor(mma_pv.partition_shape_C((ROWS, HEAD)), cutlass.Float32)
        result.fill(0.0)
        pairs = cute.logical_divide(scores.layout, ((None, None, 2), None, None))
        as_operand = cute.make_layout(
            ((pairs.shape[0][0], pairs.shape[0][1], pairs.shape[0][2][0]), pairs.shape[1], pairs.shape[0][2][1])
        )
        weights = cute.make_rmem_tensor(as_operand, DTYPE)
        highest, totals = cute.make_rmem_tensor(2, cutlass.Float32), cute.make_rmem_tensor(2, cutlass.Float32)
        highest.fill(-cutlass.Float32.inf)
        totals.fill(0.0)
        scale = math.log2(math.e) / math.sqrt(HEAD)
        if cutlass.const_expr("NO_WAIT_FOR_QUERIES" not in faults):
            cute.arch.mbarrier_wait(loaded, 0)
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        mma_pv.set(warpgroup.Field.ACCUMULATE, True)
        for _ in range(steps):
            ring.consumer_wait(read)
            mma_qk.set(warpgroup.Field.ACCUMULATE, False)
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(left, mode=[2])):
                one, other = left[None, None, block, 0], right[None, None, block, read.index]
                cute.gemm(mma_qk, scores, one, other, scores)  # reported: NO_WAIT_FOR_QUERIES
                mma_qk.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            if cutlass.const_expr("NO_WAIT_FOR_SCORES" not in faults):
                warpgroup.wait_group(0)
            for index in cutlass.range_constexpr(cute.size(scores)):
                scores[index] = scores[index] * scale  # reported: NO_WAIT_FOR_SCORES
            softened(scores, highest, totals, result)
            weights.store(scores.load().to(DTYPE).reshape(weights.shape))
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(weights, mode=[2])):
                one, other = weights[None, None, block], below[None, None, block, read.index]
                cute.gemm(mma_pv, result, one, other, result)  # reported: EARLY_RELEASE
            warpgroup.commit_group()
            if cutlass.const_expr("EARLY_RELEASE" in faults):
                ring.consumer_release(read)
                warpgroup.wait_group(0)
            else:
                warpgroup.wait_group(0)
                ring.consumer_release(read)
            read.advance()

        target = mma_pv.get_slice(thread).partition_C(of_out)
        for row in cutlass.range_constexpr(2):
            inverse = 1 / of_quad(totals[row], lambda one, other: one + other)
            for block in cutlass.range_constexpr(cute.size(result, mode=[0, 2])):
                for column in cutlass.range_constexpr(cute.size(result, mode=[0, 0])):
                    place = (column, row, block), 0, 0
                    target[place] = (result[place] * inverse).to(DTYPE)


@cute.jit
def attention(
    q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, out: cute.Tensor, NO_WAIT_FOR_QUERIES: cutlass.Constexpr = False,
    NO_WAIT_FOR_SCORES: cutlass.Constexpr = False, EARLY_RELEASE: cutlass.Constexpr = False,
):  # fmt: skip
    """out = softmax(q @ k.T / sqrt(HEAD)) @ v, for q and out (rows, HEAD), k and v (keys, HEAD), all row-major."""
    rows, columns = LayoutEnum.ROW_MAJOR, LayoutEnum.COL_MAJOR
    k_major, mn_major = OperandMajorMode.K, OperandMajorMode.MN
    mma_qk = hopper_helpers.make_trivial_tiled_mma(
        DTYPE, DTYPE, k_major, k_major, cutlass.Float32, (1, 1, 1), (ROWS, KEYS)
    )
    mma_pv = hopper_helpers.make_trivial_tiled_mma(
        DTYPE, DTYPE, k_major, mn_major, cutlass.Float32, (1, 1, 1), (ROWS, HEAD), warpgroup.OperandSource.RMEM
    )
    transposed = cute.make_tensor(v.iterator, cute.make_layout((HEAD, v.shape[0]), stride=(1, HEAD)))
    layout_q = hopper_helpers.make_smem_layout_a(rows, (ROWS, KEYS, HEAD), DTYPE, 1)
    layout_k = hopper_helpers.make_smem_layout_b(rows, (ROWS, KEYS, HEAD), DTYPE, STAGES)
    layout_v = hopper_helpers.make_smem_layout_b(columns, (ROWS, HEAD, KEYS), DTYPE, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    load_q, tiled_q = cpasync.make_tiled_tma_atom(load, q, cute.select(layout_q, [0, 1]), (ROWS, HEAD))
    load_k, tiled_k = cpasync.make_tiled_tma_atom(load, k, cute.select(layout_k, [0, 1]), (KEYS, HEAD))
    load_v, tiled_v = cpasync.make_tiled_tma_atom(load, transposed, cute.select(layout_v, [0, 1]), (HEAD, KEYS))
    named = {
        "NO_WAIT_FOR_QUERIES": NO_WAIT_FOR_QUERIES,
        "NO_WAIT_FOR_SCORES": NO_WAIT_FOR_SCORES,
        "EARLY_RELEASE": EARLY_RELEASE,
    }
    attend(
        load_q, tiled_q, load_k, tiled_k, load_v, tiled_v, out, mma_qk, mma_pv, layout_q, layout_k, layout_v,
        tuple(name for name, wanted in named.items() if wanted),
    ).launch(grid=[q.shape[0] // ROWS, 1, 1], block=[CONSUMERS + 32, 1, 1])  # fmt: skip
