"""A transpose through a swizzled tile of shared memory."""

import cutlass
import cutlass.cute as cute
from cutlass.memory import SmemAllocator

TILE = 32
ROWS = 8


@cute.kernel
def move(x: cute.Tensor, out: cute.Tensor, NO_BARRIER: cutlass.Constexpr):
    column, row, _ = cute.arch.thread_idx()
    right, down, _ = cute.arch.block_idx()
    swizzled = cute.make_composed_layout(
        cute.make_swizzle(5, 0, 5), 0, cute.make_layout((TILE, TILE), stride=(TILE, 1))
    )
    tile = SmemAllocator().allocate_tensor(x.element_type, swizzled, byte_alignment=128)
    source = cute.local_tile(x, (TILE, TILE), (down, right))
    target = cute.local_tile(out, (TILE, TILE), (right, down))
    for step in cutlass.range_constexpr(TILE // ROWS):
        tile[row + step * ROWS, column] = source[row + step * ROWS, column]
    if cutlass.const_expr(not NO_BARRIER):
        cute.arch.sync_threads()
    for step in cutlass.range_constexpr(TILE // ROWS):
        target[row + step * ROWS, column] = tile[column, row + step * ROWS]  # reported: NO_BARRIER


@cute.jit
def transpose(x: cute.Tensor, out: cute.Tensor, NO_BARRIER: cutlass.Constexpr = False):
    rows, columns = x.shape
    move(x, out, NO_BARRIER).launch(grid=[columns // TILE, rows // TILE, 1], block=[TILE, ROWS, 1])
