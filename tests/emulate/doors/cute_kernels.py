"""Kernels for the tests of CuTe DSL's door; they are in a module of their own since it imports the DSL."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

__all__ = ["cutlass"]

ROWS, COLUMNS = 32, 64


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(a):
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    add_kernel(a, b, c).launch(grid=(cute.ceil_div(cute.size(a), 128), 1, 1), block=(128, 1, 1))


@cute.kernel
def shift_kernel(x: cute.Tensor, distance: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    value = x[thread + distance]
    x[thread] = value


@cute.jit
def shift_both(x: cute.Tensor, pair: tuple[cute.Tensor, cute.Tensor], distance: cutlass.Int32, n: cutlass.Constexpr):
    shift_kernel(x, distance).launch(grid=(1, 1, 1), block=(n, 1, 1))
    shift_kernel(pair[0], distance).launch(grid=(1, 1, 1), block=(n, 1, 1))
    shift_kernel(pair[1], distance).launch(grid=(1, 1, 1), block=(n, 1, 1))


class Doubling:
    """Tiles that TMA loads, two CTAs to a cluster; each CTA doubles its own."""

    def __init__(self, waits):
        self.waits = waits

    @cute.jit
    def __call__(self, source: cute.Tensor, out: cute.Tensor):
        tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
        self.nbytes = cute.size_in_bytes(source.element_type, tile)
        atom, tensor = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), source, tile, (ROWS, COLUMNS))
        rows, columns = source.shape
        self.kernel(atom, tensor, out, tile).launch(
            grid=(cute.ceil_div(rows, ROWS), cute.ceil_div(columns, COLUMNS), 1), block=(64, 1, 1), cluster=(2, 1, 1)
        )

    @cute.kernel
    def kernel(self, atom: cute.CopyAtom, source: cute.Tensor, out: cute.Tensor, tile: cute.Layout):
        thread, _, _ = cute.arch.thread_idx()
        row, column, _ = cute.arch.block_idx()
        memory = SmemAllocator()
        barrier = memory.allocate_array(cutlass.Int64, 1)
        shared = memory.allocate_tensor(out.element_type, tile, 128)
        if thread == 0:
            cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        tiled = cute.local_tile(source, (ROWS, COLUMNS), (None, None))
        to, of = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(shared, 0, 2), cute.group_modes(tiled, 0, 2)
        )
        if thread < 32:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(barrier, self.nbytes)
            cute.copy(atom, of[(None, row, column)], to, tma_bar_ptr=barrier)
        if cutlass.const_expr(self.waits):
            cute.arch.mbarrier_wait(barrier, 0)
        mine = cute.local_tile(out, (ROWS, COLUMNS), (row, column))
        for step in range(ROWS):
            value = shared[step, thread]
            mine[step, thread] = value + value


@cute.kernel
def masking_kernel(x: cute.Tensor):
    x[0] = x[0] & 1


@cute.jit
def masks_floats(x: cute.Tensor):
    masking_kernel(x).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def asserts(x: cute.Tensor):
    assert cutlass.const_expr(x.element_type == cutlass.Int32), "x must be Int32"
    masking_kernel(x).launch(grid=(1, 1, 1), block=(32, 1, 1))


def undecorated(x):
    x[0] = 1.0


@cute.jit
def launches_a_function(x: cute.Tensor):
    undecorated(x).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def lacks_a_name(x: cute.Tensor):
    missing_name(x)  # type: ignore[name-defined]  # noqa: F821


@cute.kernel
def printing_kernel(x: cute.Tensor):
    x[cute.arch.thread_idx()[0]] = 1.0


@cute.jit
def prints(x: cute.Tensor):
    print("printed by Python")
    cute.printf("printed by C: %d", cute.size(x))
    printing_kernel(x).launch(grid=(1, 1, 1), block=(32, 1, 1))
