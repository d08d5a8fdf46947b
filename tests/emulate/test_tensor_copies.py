"""Tensor maps with element strides and NaN in kernels, and the order of tensor copies with accesses of threads."""

import ml_dtypes
import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device

POLICIES = [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]

SOURCE = """
struct __align__(64) Map { char opaque[128]; };
__device__ void load(unsigned to, const Map& map, int x, int y, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void store(const Map& map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
      " cp.async.bulk.commit_group;" :: "l"(&map), "r"(from), "r"(x), "r"(y) : "memory");
}
__device__ void wait(unsigned barrier) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;}"
      :: "r"(barrier) : "memory");
}
extern "C" __global__ void copy(const __grid_constant__ Map from, const __grid_constant__ Map to, int x, int y,
                                int bytes) {
  __shared__ __align__(128) char tile[4096];
  __shared__ unsigned long long arrived;
  unsigned place = __cvta_generic_to_shared(tile), barrier = __cvta_generic_to_shared(&arrived);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
        " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
    load(place, from, x, y, barrier);
    wait(barrier);
    store(to, place, 0, 0);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
// Stores the tile's columns and rows from a thread each; the others are never written.
extern "C" __global__ void edge(const __grid_constant__ Map map, int columns, int rows, int x, int y) {
  __shared__ __align__(1024) int tile[8][32];
  int column = threadIdx.x % 32, row = threadIdx.x / 32;
  if (column < columns && row < rows) tile[row][(column / 4 ^ row) * 4 + column % 4] = threadIdx.x;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    store(map, __cvta_generic_to_shared(tile), x, y);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
extern "C" __global__ void order(int* tensor, const __grid_constant__ Map map, int* out) {
  __shared__ __align__(128) int tile[64];
  __shared__ unsigned long long arrived;
  int t = threadIdx.x;
  unsigned place = __cvta_generic_to_shared(tile), barrier = __cvta_generic_to_shared(&arrived);
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
        " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(barrier) : "memory");
  }
  __syncthreads();
  tensor[t] = t;
  if (FAULT != 1) asm volatile("fence.proxy.async.global;" ::: "memory");
  if (FAULT != 2) __syncthreads();
  if (t == 0) load(place, map, 0, 0, barrier);
  if (FAULT != 3) wait(barrier);
  tensor[t] = 2 * t;
  if (FAULT == 3) wait(barrier);
  asm volatile("fence.proxy.async.global;" ::: "memory");
  __syncthreads();
  if (t == 0) {
    store(map, place, 0, 0);
    if (FAULT == 4) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  __syncthreads();
  out[t] = *(volatile int*)(tensor + t);
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""


def map_of(device, array, **options):
    """An uploaded matrix, and its map."""
    address = device.upload(array)
    rows, columns = array.shape
    strides = (columns * array.itemsize,)
    return address, device.tensor_map(
        dtype=array.dtype, address=address, shape=(columns, rows), strides=strides, **options
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("oob_fill", ["zeros", "nan"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("step", [1, 2, 3, 8])
@pytest.mark.parametrize(("x", "y"), [(16, -3), (0, 5)])
def test_every_so_many_rows_and_what_is_out_of_bounds(x, y, step, dtype, oob_fill, policy):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    columns, side = 128 // np.dtype(dtype).itemsize, 11
    matrix = np.arange(20 * columns).reshape(20, columns).astype(dtype)
    rows = -(-side // step)
    _, source = map_of(device, matrix, box=(columns, side), element_strides=(5, step), oob_fill=oob_fill, swizzle=128)
    address, target = map_of(device, np.zeros((rows, columns), dtype), box=(columns, rows), swizzle=128)
    kernel = device.load(compile_ptx(SOURCE, "sm_90a", "-DFAULT=0"), "copy")
    device.launch(kernel, (1,), (32,), [source, target, x, y, rows * 128])
    assert not device.reports
    bits = f"u{np.dtype(dtype).itemsize}"
    nan = np.full(columns * rows * np.dtype(dtype).itemsize // 2, 0x7FF7 if oob_fill == "nan" else 0, "<u2")
    expected = nan.view(bits).reshape(rows, columns).copy()
    taken = [row for row in range(rows) if y + row * step >= 0]
    expected[taken, : columns - x] = matrix.view(bits)[[y + row * step for row in taken], x:]
    np.testing.assert_array_equal(device.read(address, expected.nbytes).view(bits).reshape(rows, -1), expected)


@pytest.mark.planted_fault
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("fault", "kind", "lines"),
    [
        (0, None, ()),
        (1, "proxy-fence", ("cp.async.bulk.tensor", "st.global")),
        (2, "race", ("cp.async.bulk.tensor", "st.global")),
        (3, "overwrite-before-wait", ("st.global", "cp.async.bulk.tensor")),
        (4, "read-before-wait", ("ld.volatile.global", "cp.async.bulk.tensor")),
    ],
)
def test_tensor_copies_are_ordered_with_accesses_of_threads(fault, kind, lines, policy, reports):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    address, tensor_map = map_of(device, np.zeros((4, 16), np.int32), box=(16, 4))
    out = device.allocate(256)
    kernel = device.load(compile_ptx(SOURCE, "sm_90a", f"-DFAULT={fault}"), "order")
    device.launch(kernel, (1,), (64,), [address, tensor_map, out])
    assert {report.kind for report in reports()} == ({kind} if kind else set())
    for report in reports():
        assert all(line in location for line, location in zip(lines, report.locations, strict=True))
    if not fault:
        np.testing.assert_array_equal(device.read(out, 256).view(np.int32), np.arange(64))


def store_at_the_edge(columns, rows, x=16, y=10):
    """Stores a box of 32 x 8 at the end of 36 x 16: 20 columns and 6 rows lie inside."""
    device = Device(memory_bytes=1 << 20)
    address, tensor_map = map_of(device, np.full((16, 36), -1, np.int32), box=(32, 8), swizzle=128)
    kernel = device.load(compile_ptx(SOURCE, "sm_90a", "-DFAULT=0"), "edge")
    device.launch(kernel, 1, 256, [tensor_map, columns, rows, x, y])
    return device.read(address, 16 * 36 * 4).view(np.int32).reshape(16, 36), device.reports


def test_shared_memory_under_what_lies_outside_the_tensor_may_hold_nothing():
    stored, reports = store_at_the_edge(20, 6)
    assert not reports
    np.testing.assert_array_equal(stored[10:, 16:], np.arange(256).reshape(8, 32)[:6, :20])
    assert (stored[:10] == -1).all()
    assert (stored[:, :16] == -1).all()
    stored, reports = store_at_the_edge(0, 0, x=36)
    assert not reports
    assert (stored == -1).all()


@pytest.mark.planted_fault
@pytest.mark.parametrize(("columns", "rows"), [(19, 6), (20, 5)])
def test_shared_memory_under_what_lies_inside_must_be_written(columns, rows):
    _, (report,) = store_at_the_edge(columns, rows)
    assert report.kind == "uninitialized-shared"
