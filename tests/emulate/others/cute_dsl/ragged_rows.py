"""Doubles groups of rows with TMA: a CTA changes the tensor maps, so that its tiles end where its group ends."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import TensorMapManager, TensorMapUpdateMode

ROWS, COLUMNS = 16, 64
THREADS = 128
MAP_BYTES = 128


@cute.kernel
def of_group(
    load: cute.CopyAtom, x: cute.Tensor, store: cute.CopyAtom, out: cute.Tensor, ends: cute.Tensor,
    maps: cute.Tensor, rows_x: cute.Tensor, rows_out: cute.Tensor, layout: cute.Layout, faults: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    group, _, _ = cute.arch.block_idx()
    smem = SmemAllocator()
    arrived = smem.allocate_array(cutlass.Int64, 1)
    words = cute.make_layout(MAP_BYTES // 8)
    changing = [smem.allocate_tensor(cutlass.Int64, words, 128).iterator for _ in range(2)]
    tile = smem.allocate_tensor(cutlass.Float32, layout, 128)
    manager = TensorMapManager(TensorMapUpdateMode.SMEM, MAP_BYTES)
    of_load = manager.get_tensormap_ptr(maps[group, 0, None].iterator)
    of_store = manager.get_tensormap_ptr(maps[group, 1, None].iterator)
    manager.init_tensormap_from_atom(load, changing[0], 0)
    manager.init_tensormap_from_atom(store, changing[1], 0)
    if thread == 0:
        cute.arch.mbarrier_init(arrived, 1)
    cute.arch.sync_threads()

    begin, end = cutlass.Int32(0), ends[group]
    if group > 0:
        begin = ends[group - 1]
    width = cute.size(rows_x, mode=[1])
    parts = tuple(
        cute.make_tensor(whole.iterator + begin * width, cute.make_layout((end - begin, width), stride=(width, 1)))
        for whole in (rows_x, rows_out)
    )
    manager.update_tensormap(parts, (load, store), (of_load, of_store), 0, tuple(changing))
    if cutlass.const_expr("NO_ACQUIRE" not in faults):
        manager.fence_tensormap_update(of_load)
        manager.fence_tensormap_update(of_store)

    from_x = cute.local_tile(x, (ROWS, COLUMNS), (None, None))
    from_out = cute.local_tile(out, (ROWS, COLUMNS), (None, None))
    into_tile, tiles_x = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(from_x, 0, 2)
    )
    from_tile, tiles_out = cpasync.tma_partition(
        store, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(from_out, 0, 2)
    )
    for step in range(cute.ceil_div(end - begin, ROWS)):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(arrived, ROWS * COLUMNS * 4)
            changed = manager.get_tensormap_ptr(of_load, cute.AddressSpace.generic)
            # reported: NO_ACQUIRE, NO_WARP_BARRIER
            cute.copy(load, tiles_x[None, step, 0], into_tile, tma_bar_ptr=arrived, tma_desc_ptr=changed)
        cute.arch.mbarrier_wait(arrived, step % 2)
        for place in range(thread, ROWS * COLUMNS, THREADS):
            tile[place // COLUMNS, place % COLUMNS] = tile[place // COLUMNS, place % COLUMNS] * 2
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        if warp == 0:
            changed = manager.get_tensormap_ptr(of_store, cute.AddressSpace.generic)
            cute.copy(store, from_tile, tiles_out[None, step, 0], tma_desc_ptr=changed)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0, read=True)
            if cutlass.const_expr("NO_WARP_BARRIER" not in faults):
                cute.arch.sync_warp()  # every lane stores and waits, and one of them loads again


@cute.jit
def ragged_rows(x: cute.Tensor, out: cute.Tensor, ends: cute.Tensor, maps: cute.Tensor,
                NO_ACQUIRE: cutlass.Constexpr = False, NO_WARP_BARRIER: cutlass.Constexpr = False):  # fmt: skip
    """out = 2 * x; group g ends with row ends[g]. maps: two tensor maps for each group."""
    layout = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    load, tiled_x = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (ROWS, COLUMNS))
    store, tiled_out = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), out, layout, (ROWS, COLUMNS))
    named = {"NO_ACQUIRE": NO_ACQUIRE, "NO_WARP_BARRIER": NO_WARP_BARRIER}
    of_group(
        load, tiled_x, store, tiled_out, ends, maps, x, out, layout,
        tuple(name for name, wanted in named.items() if wanted),
    ).launch(grid=[cute.size(ends), 1, 1], block=[THREADS, 1, 1])  # fmt: skip
