"""A matmul by mma.sync: cp.async fills a ring of slots, and ldmatrix reads them."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.memory import SmemAllocator

TILE_M, TILE_N, TILE_K = 64, 64, 32
STAGES = 3
THREADS = 128
DTYPE = cutlass.BFloat16


@cute.kernel
def multiply(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, layout: cute.ComposedLayout, load: cute.TiledCopy,
             mma: cute.TiledMma, faults: cutlass.Constexpr):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    down, right, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    slots_a = smem.allocate_tensor(DTYPE, layout, 128)
    slots_b = smem.allocate_tensor(DTYPE, layout, 128)
    of_a = cute.local_tile(a, (TILE_M, TILE_K), (down, None))
    of_b = cute.local_tile(b, (TILE_N, TILE_K), (right, None))
    of_c = cute.local_tile(c, (TILE_M, TILE_N), (down, right))
    steps = cute.size(of_a, mode=[2])

    loader = load.get_slice(thread)
    from_a, into_a = loader.partition_S(of_a), loader.partition_D(slots_a)
    from_b, into_b = loader.partition_S(of_b), loader.partition_D(slots_b)
    for step in cutlass.range_constexpr(STAGES - 1):
        cute.copy(load, from_a[None, None, None, step], into_a[None, None, None, step])
        cute.copy(load, from_b[None, None, None, step], into_b[None, None, None, step])
        cute.arch.cp_async_commit_group()

    mine = mma.get_slice(thread)
    left = mma.make_fragment_A(mine.partition_A(slots_a[None, None, 0]))
    below = mma.make_fragment_B(mine.partition_B(slots_b[None, None, 0]))
    result = mine.partition_C(of_c)
    sums = mma.make_fragment_C(result)
    sums.fill(0.0)
    matrices = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), DTYPE)
    read_a, read_b = cute.make_tiled_copy_A(matrices, mma), cute.make_tiled_copy_B(matrices, mma)
    found_a, found_b = read_a.get_slice(thread).partition_S(slots_a), read_b.get_slice(thread).partition_S(slots_b)
    into_left, into_below = read_a.get_slice(thread).retile(left), read_b.get_slice(thread).retile(below)

    for step in range(steps):
        if cutlass.const_expr("WAIT_TOO_MANY" in faults):
            cute.arch.cp_async_wait_group(STAGES - 1)
        else:
            cute.arch.cp_async_wait_group(STAGES - 2)
        if cutlass.const_expr("NO_BARRIER" not in faults):
            cute.arch.sync_threads()
        slot, ahead = step % STAGES, step + STAGES - 1
        cute.copy(read_a, found_a[None, None, None, slot], into_left)  # reported: WAIT_TOO_MANY, NO_BARRIER
        cute.copy(read_b, found_b[None, None, None, slot], into_below)  # reported: WAIT_TOO_MANY, NO_BARRIER
        if ahead < steps:
            cute.copy(load, from_a[None, None, None, ahead], into_a[None, None, None, ahead % STAGES])
            cute.copy(load, from_b[None, None, None, ahead], into_b[None, None, None, ahead % STAGES])
        cute.arch.cp_async_commit_group()
        for block in cutlass.range_constexpr(cute.size(left, mode=[2])):
            cute.gemm(mma, sums, left[None, None, block], below[None, None, block], sums)
    cute.autovec_copy(sums, result)


@cute.jit
def mma_gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, WAIT_TOO_MANY: cutlass.Constexpr = False,
             NO_BARRIER: cutlass.Constexpr = False):  # fmt: skip
    """c = a @ b.T for a (m, k), b (n, k) and c (m, n), all row-major."""
    atom = cute.make_composed_layout(cute.make_swizzle(2, 3, 3), 0, cute.make_layout((8, TILE_K), stride=(TILE_K, 1)))
    layout = cute.tile_to_shape(atom, (TILE_M, TILE_K, STAGES), (0, 1, 2))
    chunk = cute.make_copy_atom(cpasync.CopyG2SOp(), DTYPE, num_bits_per_copy=128)
    across = TILE_K // 8
    load = cute.make_tiled_copy_tv(
        chunk, cute.make_layout((THREADS // across, across), stride=(across, 1)), cute.make_layout((1, 8))
    )
    mma = cute.make_tiled_mma(
        warp.MmaF16BF16Op(DTYPE, cutlass.Float32, (16, 8, 16)), cute.make_layout((2, 2, 1)), (32, 32, 16)
    )
    named = {"WAIT_TOO_MANY": WAIT_TOO_MANY, "NO_BARRIER": NO_BARRIER}
    multiply(a, b, c, layout, load, mma, tuple(name for name, wanted in named.items() if wanted)).launch(
        grid=[c.shape[0] // TILE_M, c.shape[1] // TILE_N, 1], block=[THREADS, 1, 1]
    )
