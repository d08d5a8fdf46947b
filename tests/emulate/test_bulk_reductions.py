"""Bulk reductions against NumPy: every .redOp and type of the PTX manual, and what it does not have."""

import re

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, EmulatorError, Misaligned, OutOfBounds, UnsupportedInstruction
from tilewright.emulator.semantics.elements import element_dtype
from tilewright.emulator.semantics.reductions import BULK_REDUCTIONS

POLICIES = [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]
COUNT = 64  # elements; their bytes are a multiple of 16

GLOBAL = """
extern "C" __global__ void reduce(int4* target, const int4* values, int bytes) {
  __shared__ __align__(128) int4 source[32];
  source[threadIdx.x] = values[threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    unsigned from = __cvta_generic_to_shared(source);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.FORM [%0], [%1], %2;" ::
        "l"(target), "r"(from), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""
SHARED = """
extern "C" __global__ void __cluster_dims__(2) reduce(int4* target, const int4* values, int bytes) {
  __shared__ __align__(128) int4 source[32], sum[32];
  __shared__ unsigned long long done;
  int rank = blockIdx.x, i = threadIdx.x;
  unsigned from = __cvta_generic_to_shared(source), to = __cvta_generic_to_shared(sum);
  unsigned barrier = __cvta_generic_to_shared(&done);
  source[i] = values[i];
  sum[i] = target[i];
  if (i == 0 && rank == 1) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
        " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (i == 0 && rank == 0) {
    asm volatile("{.reg .b32 t, b; mapa.shared::cluster.u32 t, %0, 1; mapa.shared::cluster.u32 b, %3, 1;"
        " cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.FORM [t], [%1], %2, [b];}" ::
        "r"(to), "r"(from), "r"(bytes), "r"(barrier) : "memory");
  }
  if (rank == 1) {
    asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;}" ::
        "r"(barrier) : "memory");
    target[i] = sum[i];
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""
TENSOR = """
struct __align__(64) Map { char opaque[128]; };
extern "C" __global__ void reduce(const __grid_constant__ Map map, const int4* values) {
  __shared__ __align__(128) int4 source[32];
  source[threadIdx.x] = values[threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    unsigned from = __cvta_generic_to_shared(source);
    asm volatile("cp.reduce.async.bulk.tensor.RANKd.global.shared::cta.FORM.tile.bulk_group [%0, {PLACE}], [%1];" ::
        "l"(&map), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""


def values_of(kind, seed):
    """512 bytes of COUNT values of a PTX type, among them extremes and, of f32, subnormals whose sums are some too."""
    dtype = element_dtype(kind.replace("b", "u") if kind in ("b32", "b64") else kind)
    generator = np.random.default_rng(seed)
    if dtype.kind in "ui":
        values = generator.integers(0, 256, COUNT * dtype.itemsize, np.uint8).view(dtype)
        values[:8] = np.array([0, 1, 2, 3, -1, -2, 5, 0]).astype(dtype)[:: 1 if seed else -1]
    else:
        values = generator.standard_normal(COUNT).astype(dtype)
        values[:5] = np.array([0.0, 1e-40, -1e-40, 1e-40, 2.0]).astype(dtype)[:: 1 if seed else -1]
    return values


def reduced(operation, kind, old, value):
    """What the PTX manual says, one element after the other."""
    one = {
        "add": lambda a, b: a + b,
        "min": lambda a, b: min(a, b, key=_order),
        "max": lambda a, b: max(a, b, key=_order),
        "inc": lambda a, b: 0 if a >= b else a + 1,
        "dec": lambda a, b: b if a == 0 or a > b else a - 1,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }[operation]
    if old.dtype.kind in "ui":
        bits, results = 8 * old.itemsize, [one(a, b) for a, b in zip(old.tolist(), value.tolist(), strict=True)]
        return np.array([result & (1 << bits) - 1 for result in results], f"u{old.itemsize}").view(old.dtype)
    return np.array([one(a, b) for a, b in zip(old, value, strict=True)], old.dtype)


def _order(number):
    """-0 comes before 0."""
    return number, np.copysign(1, float(number))


def cases(destination):
    return [(operation, kind) for operation, kinds in BULK_REDUCTIONS[destination].items() for kind in kinds]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("destination", "operation", "kind"),
    [(destination, *case) for destination in ("global", "shared") for case in cases(destination)],
)
def test_reductions_of_ranges(destination, operation, kind, policy):
    old, value = values_of(kind, 0), values_of(kind, 1)
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    target, values = device.upload(np.zeros(64, np.float64)), device.upload(np.zeros(64, np.float64))
    device.write(target, old)
    device.write(values, value)
    noftz = ".noftz" if operation == "add" and kind in ("f16", "bf16") else ""
    source, grid = (GLOBAL, 1) if destination == "global" else (SHARED, 2)
    kernel = device.load(compile_ptx(source.replace("FORM", f"{operation}{noftz}.{kind}")))
    device.launch(kernel, (grid,), (32,), [target, values, old.nbytes], cluster=(grid,))
    assert not device.reports
    expected = reduced(operation, kind, old, value)
    bits = f"u{old.itemsize}"
    np.testing.assert_array_equal(device.read(target, old.nbytes).view(bits), expected.view(bits))


@pytest.mark.parametrize(
    ("rank", "operation", "kind"),
    [(2, *case) for case in cases("tensor")] + [(rank, "add", "s32") for rank in (1, 3, 4, 5)],
)
def test_reductions_of_tensors(rank, operation, kind):
    old, value = values_of(kind, 0), values_of(kind, 1)
    device = Device(memory_bytes=1 << 20, asynchrony="lazy")
    target, values = device.upload(old), device.upload(np.zeros(64, np.float64))
    device.write(values, value)
    row = 64 if rank == 1 else 16
    shape = (row, 4, 1, 1, 1)[:rank]
    strides = tuple(row * old.itemsize * (1 if axis == 0 else 4) for axis in range(rank - 1))
    tensor_map = device.tensor_map(dtype=kind, address=target, shape=shape, strides=strides, box=shape)
    source = TENSOR.replace("RANK", str(rank)).replace("PLACE", ", ".join("0" * rank))
    kernel = device.load(compile_ptx(source.replace("FORM", operation)))
    device.launch(kernel, (1,), (32,), [tensor_map, values])
    assert not device.reports
    expected = reduced(operation, kind, old, value)
    np.testing.assert_array_equal(device.read(target, old.nbytes), expected.view(np.uint8))


@pytest.mark.planted_fault
def test_a_row_is_reduced_in_whole_pieces_of_16_bytes():
    """As by an H200: here two elements past the array."""
    device = Device(memory_bytes=1 << 20)
    target, values = device.upload(np.zeros(18, np.uint32)), device.upload(np.ones(64, np.float64))
    tensor_map = device.tensor_map(dtype="u32", address=target, shape=(18,), strides=(), box=(32,))
    source = TENSOR.replace("RANK", "1").replace("PLACE", "0").replace("FORM", "add")
    with pytest.raises(OutOfBounds, match="past the end of the allocation of 72 bytes"):
        device.launch(device.load(compile_ptx(source)), (1,), (32,), [tensor_map, values])


HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry e() {\n"
REGISTERS = ".reg .b32 %s, %n; .reg .b64 %g; .shared .align 128 .b8 x[64]; .shared .align 8 .b64 b;"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("global.shared::cta.bulk_group.add.s64", "no bulk reduction .add of .s64 to global memory: use .u32, .s32"),
        ("global.shared::cta.bulk_group.min.f32", "no bulk reduction .min of .f32 to global memory"),
        ("global.shared::cta.bulk_group.inc.s32", "no bulk reduction .inc of .s32 to global memory: use .u32"),
        ("global.shared::cta.bulk_group.xor.u32", "no bulk reduction .xor of .u32 to global memory: use .b32, .b64"),
        ("global.shared::cta.bulk_group.add.f16", ".noftz belongs to .add of .f16 and .bf16, and must stand there"),
        ("global.shared::cta.bulk_group.min.noftz.f16", ".noftz belongs to .add of .f16 and .bf16"),
        ("tensor.2d.global.shared::cta.add.im2col_no_offs.bulk_group", "no emulation of .im2col_no_offs in"),
        ("global.shared::cta.bulk_group.cp_mask.add.u32", "no emulation of .cp_mask in"),
        ("global.shared::cta.bulk_group.exch.b32", "no emulation of .exch in"),
        (
            "shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32",
            "reduction .add of .f32 to shared",
        ),
        ("shared::cluster.shared::cta.mbarrier::complete_tx::bytes.min.u64", "use .u32, .s32"),
        ("shared::cluster.shared::cta.mbarrier::complete_tx::bytes.or.b64", "to shared memory: use .b32"),
    ],
)
def test_reductions_that_there_are_not(form, message):
    operands = "[x], [x], 16, [b]" if "mbarrier" in form else "[%g], [x], 16"
    ptx = f"{HEADER}{REGISTERS}\ncp.reduce.async.bulk.{form} {operands};\nret;\n}}"
    with pytest.raises(UnsupportedInstruction, match=re.escape(message)):
        Device(memory_bytes=1 << 16).load(ptx)


@pytest.mark.parametrize(
    ("operation", "kind", "message"),
    [
        ("add", "f64", "there is no .add of a tensor of f64: make its map with u32, s32, u64, f32, f16, bf16"),
        ("inc", "s32", "there is no .inc of a tensor of s32: make its map with u32"),
        ("max", "f32", "there is no .max of a tensor of f32"),
        ("or", "u16", "there is no .or of a tensor of u16: make its map with u32, s32, u64"),
    ],
)
def test_reductions_that_a_tensor_has_not(operation, kind, message):
    device = Device(memory_bytes=1 << 16)
    target, values = device.allocate(512), device.upload(np.zeros(64, np.float64))
    tensor_map = device.tensor_map(dtype=kind, address=target, shape=(16,), strides=(), box=(16,))
    kernel = device.load(compile_ptx(TENSOR.replace("RANK", "1").replace("PLACE", "0").replace("FORM", operation)))
    with pytest.raises(EmulatorError, match=re.escape(message)):
        device.launch(kernel, (1,), (32,), [tensor_map, values])


@pytest.mark.parametrize(("offset", "size"), [(8, 16), (0, 24)])
def test_ranges_of_reductions_are_multiples_of_16_bytes(offset, size):
    device = Device(memory_bytes=1 << 16)
    target, values = device.allocate(512), device.upload(np.zeros(64, np.float64))
    kernel = device.load(compile_ptx(GLOBAL.replace("FORM", "add.u32")))
    with pytest.raises(Misaligned, match="both must be multiples of 16"):
        device.launch(kernel, (1,), (32,), [target + offset, values, size])


@pytest.mark.parametrize("cluster", [1, 2])
def test_reductions_into_shared_memory_need_a_cluster(cluster):
    reduction = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    ptx = f"{HEADER}{REGISTERS}\nmbarrier.init.shared::cta.b64 [b], 1;\n{reduction} [x], [x+16], 16, [b];\nret;\n}}"
    device = Device(memory_bytes=1 << 16, checks=False)
    kernel = device.load(ptx)
    if cluster > 1:
        device.launch(kernel, (cluster,), (1,), [], cluster=(cluster,))
        return
    with pytest.raises(EmulatorError, match="in a launch without clusters: an H200 stops with an illegal instruction"):
        device.launch(kernel, (1,), (1,), [])


@pytest.mark.parametrize(("offset", "nbytes", "fails"), [(0, 32, False), (4, 32, True), (16, 24, True)])
def test_a_prefetch_is_of_whole_16_bytes_too(offset, nbytes, fails):
    ptx = compile_ptx(
        'extern "C" __global__ void fetch(const char* in, int bytes) {'
        ' asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(in), "r"(bytes)); }'
    )
    device = Device(memory_bytes=1 << 16)
    arguments = [device.allocate(64) + offset, np.int32(nbytes)]
    if not fails:
        device.launch(device.load(ptx), 1, 32, arguments)
        return
    with pytest.raises(Misaligned, match=f"moves {nbytes} bytes at 0x[0-9a-f]+: both must be multiples of 16"):
        device.launch(device.load(ptx), 1, 32, arguments)
