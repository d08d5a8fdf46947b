"""A softmax of rows: a warp shuffles its own part, and shared memory joins the warps."""

import operator

import cutlass
import cutlass.cute as cute
from cutlass.memory import SmemAllocator

WARPS = 4


@cute.jit
def joined(value, combine: cutlass.Constexpr, parts: cute.Tensor, NO_BARRIER: cutlass.Constexpr):
    """The combination of all threads' values, in all threads."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    value = cute.arch.warp_reduction(value, combine)
    if lane == 0:
        parts[warp] = value
    if cutlass.const_expr(not NO_BARRIER):
        cute.arch.barrier()
    result = parts[0]  # reported: NO_BARRIER
    for other in cutlass.range_constexpr(1, WARPS):
        result = combine(result, parts[other])  # reported: NO_BARRIER
    return result


@cute.kernel
def of_rows(x: cute.Tensor, out: cute.Tensor, NO_BARRIER: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    highest = smem.allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    totals = smem.allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    columns = cute.size(x, mode=[1])
    top = -cutlass.Float32.inf
    for column in range(thread, columns, 32 * WARPS):
        top = cute.arch.fmax(top, x[row, column])
    top = joined(top, cute.arch.fmax, highest, NO_BARRIER)
    total = cutlass.Float32(0)
    for column in range(thread, columns, 32 * WARPS):
        total += cute.math.exp(x[row, column] - top)
    total = joined(total, operator.add, totals, False)
    for column in range(thread, columns, 32 * WARPS):
        out[row, column] = cute.math.exp(x[row, column] - top) / total


@cute.jit
def softmax(x: cute.Tensor, out: cute.Tensor, NO_BARRIER: cutlass.Constexpr = False):
    of_rows(x, out, NO_BARRIER).launch(grid=[cute.size(x, mode=[0]), 1, 1], block=[32 * WARPS, 1, 1])
