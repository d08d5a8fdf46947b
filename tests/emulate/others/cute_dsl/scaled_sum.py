"""out = x + factor * y, four elements at a time, with predicates where the matrix ends."""

import cutlass
import cutlass.cute as cute


@cute.kernel
def add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, places: cute.Tensor, tv: cute.Layout,
        shape: cute.Shape, factor: cutlass.Float32, NO_PREDICATE: cutlass.Constexpr):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    tile = ((None, None), block)
    mine = [cute.composition(each[tile], tv)[(thread, None)] for each in (x, y, out, places)]
    left, right = cute.make_rmem_tensor_like(mine[0]), cute.make_rmem_tensor_like(mine[1])
    vectors = cute.size(mine[3]) // 4
    inside = cute.make_rmem_tensor((vectors, (1,)), cutlass.Boolean)
    for vector in cutlass.range_constexpr(vectors):
        inside[vector] = cute.elem_less(mine[3][4 * vector], shape)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x.element_type)
    cute.copy(atom, mine[0], left, pred=inside)
    cute.copy(atom, mine[1], right, pred=inside)
    left.store(left.load() + factor * right.load())
    if cutlass.const_expr(NO_PREDICATE):
        cute.copy(atom, left, mine[2])  # reported: NO_PREDICATE
    else:
        cute.copy(atom, left, mine[2], pred=inside)


@cute.jit
def scaled_sum(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32,
               NO_PREDICATE: cutlass.Constexpr = False):  # fmt: skip
    threads, values = cute.make_layout((4, 32), stride=(32, 1)), cute.make_layout((4, 4), stride=(4, 1))
    tiler, tv = cute.make_layout_tv(threads, values)
    tiles = [cute.zipped_divide(each, tiler) for each in (x, y, out)]
    places = cute.zipped_divide(cute.make_identity_tensor(x.shape), tiler)
    add(*tiles, places, tv, x.shape, factor, NO_PREDICATE).launch(
        grid=[cute.size(tiles[0], mode=[1]), 1, 1], block=[cute.size(tv, mode=[0]), 1, 1]
    )
