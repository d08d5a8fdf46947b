"""Matrix instructions against the fragment tables of the PTX ISA, as plain loops."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from emulate.operand_tiles import SPANS, place_operand
from tilewright.emulator.semantics.matrices.accumulation import MODES
from tilewright.emulator.semantics.matrices.fragments import MmaForm
from tilewright.emulator.semantics.matrices.tensor_cores import WgmmaForm, ldmatrix, mma_sync, stmatrix, wgmma
from tilewright.emulator.semantics.matrix_descriptor import MatrixDescriptor

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "f32": np.float32,
    "s32": np.int32,
}
# Integers that the type and every sum of their products represent exactly.
RANGES = {"e4m3": (-8, 9), "e5m2": (-4, 5), "s8": (-128, 128), "u8": (0, 256)}

# PTX ISA, "Matrix Fragments for mma.m16n8k...": elements of a thread, and the (row, column)
# of element i in terms of g = groupID and t = threadID_in_group.
K8_TF32_A = 4, lambda i, g, t: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)
K8_TF32_B = 2, lambda i, g, t: (t if i == 0 else t + 4, g)
K4_TF32_A = 2, lambda i, g, t: (g if i == 0 else g + 8, t)
K4_TF32_B = 1, lambda i, g, t: (t, g)
K8_A = 4, lambda i, g, t: (g if i < 2 else g + 8, t * 2 + (i & 1))
K8_B = 2, lambda i, g, t: (t * 2 + i, g)
K16_A = (
    8,
    lambda i, g, t: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8),
)
K16_B = 4, lambda i, g, t: (t * 2 + (i & 1) if i < 2 else t * 2 + (i & 1) + 8, g)
K16_BYTES_A = 8, lambda i, g, t: (g if i < 4 else g + 8, t * 4 + (i & 3))
K16_BYTES_B = 4, lambda i, g, t: (t * 4 + i, g)
K32_A = (
    16,
    lambda i, g, t: (
        g if i < 4 or 8 <= i < 12 else g + 8,
        t * 4 + (i & 3) if i < 8 else t * 4 + (i & 3) + 16,
    ),
)
K32_B = 8, lambda i, g, t: (t * 4 + (i & 3) if i < 4 else t * 4 + (i & 3) + 16, g)
ACCUMULATOR = 4, lambda i, g, t: (g if i < 2 else g + 8, t * 2 + (i & 1))


def integers(rng, element_type, *shape):
    return rng.integers(*RANGES.get(element_type, (-8, 9)), shape)


def to_fragments(matrices, dtype, table):
    """Registers (registers, W, 32, C) that hold matrices (W, C, rows, columns) as the table says."""
    count, position = table
    warps, ctas = matrices.shape[:2]
    values = np.zeros((warps, 32, ctas, count), dtype)
    for lane, i in itertools.product(range(32), range(count)):
        values[:, lane, :, i] = matrices[:, :, *position(i, lane // 4, lane % 4)]
    words = values.view(np.uint32)
    # As the registers of some lanes among others: neither contiguous nor aligned with the whole.
    file = np.zeros((words.shape[3], warps + 2, 32, ctas), np.uint32)
    file[:, 1:-1] = words.transpose(3, 0, 1, 2)
    return file[:, 1:-1]


def from_fragments(registers, dtype, table, rows, columns):
    """The matrices (W, C, rows, columns) in registers, as float64: the inverse of to_fragments."""
    count, position = table
    _, warps, _, ctas = registers.shape
    values = np.ascontiguousarray(registers.transpose(1, 2, 3, 0)).view(dtype)
    matrices = np.full((warps, ctas, rows, columns), np.nan)
    for lane, i in itertools.product(range(32), range(count)):
        matrices[:, :, *position(i, lane // 4, lane % 4)] = values[:, lane, :, i]
    return matrices


MMA_CASES = [
    ("m16n8k16", "f16", "f16", "f32", K16_A, K16_B),
    ("m16n8k16", "f16", "f16", "f16", K16_A, K16_B),
    ("m16n8k16", "bf16", "bf16", "f32", K16_A, K16_B),
    ("m16n8k8", "f16", "f16", "f32", K8_A, K8_B),
    ("m16n8k8", "f16", "f16", "f16", K8_A, K8_B),
    ("m16n8k8", "bf16", "bf16", "f32", K8_A, K8_B),
    ("m16n8k8", "tf32", "tf32", "f32", K8_TF32_A, K8_TF32_B),
    ("m16n8k4", "tf32", "tf32", "f32", K4_TF32_A, K4_TF32_B),
    ("m16n8k32", "s8", "u8", "s32", K32_A, K32_B),
    ("m16n8k16", "u8", "s8", "s32", K16_BYTES_A, K16_BYTES_B),
    ("m16n8k32", "e4m3", "e5m2", "f32", K32_A, K32_B),
    ("m16n8k32", "e5m2", "e5m2", "f16", K32_A, K32_B),
]


@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize(("shape", "a_type", "b_type", "acc_type", "a_table", "b_table"), MMA_CASES)
def test_mma_sync_multiplies_and_accumulates(shape, a_type, b_type, acc_type, a_table, b_table, arithmetic):
    rng = np.random.default_rng(1)
    warps, ctas, k = 3, 5, int(shape[6:])
    a, b = integers(rng, a_type, warps, ctas, 16, k), integers(rng, b_type, warps, ctas, k, 8)
    c = rng.integers(-64, 65, (warps, ctas, 16, 8))
    registers_c = to_fragments(c, DTYPES[acc_type], ACCUMULATOR)
    if acc_type == "f32":
        registers_c = registers_c.view(np.float32)
    d = mma_sync(
        MmaForm(shape, a_type, b_type, acc_type, acc_type),
        to_fragments(a, DTYPES[a_type], a_table),
        to_fragments(b, DTYPES[b_type], b_table),
        registers_c,
        arithmetic,
    )
    assert d.dtype == registers_c.dtype
    np.testing.assert_array_equal(from_fragments(d, DTYPES[acc_type], ACCUMULATOR, 16, 8), a @ b + c)


def test_tf32_ignores_the_low_bits_of_its_inputs():
    ones = np.full((4, 1, 32, 1), np.float32(1).view(np.uint32) + 0x1FFF, np.uint32)
    zero = np.zeros((4, 1, 32, 1), np.float32)
    assert (mma_sync(MmaForm("m16n8k8", "tf32", "tf32", "f32", "f32"), ones, ones[:2], zero) == 8).all()


@pytest.mark.parametrize("a_type", ["f16", "bf16"])
def test_products_keep_subnormals_infinities_and_nans(a_type):
    dtype = DTYPES[a_type]
    tiny, huge = ml_dtypes.finfo(dtype).smallest_subnormal, np.inf
    a = np.zeros((1, 1, 16, 16), dtype)
    a[..., 0, 0], a[..., 1, 0], a[..., 2, 0] = tiny, huge, np.nan
    b = np.zeros((1, 1, 16, 8), dtype)
    b[..., 0, :] = 1
    registers = to_fragments(a, dtype, K16_A), to_fragments(b, dtype, K16_B)
    d = mma_sync(MmaForm("m16n8k16", a_type, a_type, "f32", "f32"), *registers, np.zeros((4, 1, 32, 1), np.float32))
    product = from_fragments(d, np.float32, ACCUMULATOR, 16, 8)[0, 0]
    assert (product[0] == float(tiny)).all()
    assert np.isposinf(product[1]).all()
    assert np.isnan(product[2]).all()
    assert (product[3:] == 0).all()


@pytest.mark.parametrize(
    ("shape", "a_type", "b_type", "acc_type", "message"),
    [
        ("m16n8k16", "f16", "bf16", "f32", "product of f16 and bf16 accumulated in f32"),
        ("m16n8k16", "bf16", "bf16", "f16", "product of bf16 and bf16 accumulated in f16"),
        ("m16n8k16", "f64", "f64", "f32", "product of f64"),
        ("m16n8k32", "f16", "f16", "f32", "mma shape m16n8k32 for f16"),
        ("m8n8k4", "f16", "f16", "f32", "mma shape m8n8k4 for f16"),
        ("m16n8k8", "f16", "f16", "f32", "mma shape m16n8k8 for f16 with 4 and 2 registers"),
    ],
)
def test_mma_sync_refuses_what_does_not_exist(shape, a_type, b_type, acc_type, message):
    form, registers = MmaForm(shape, a_type, b_type, acc_type, acc_type), np.zeros((4, 1, 32, 1), np.uint32)
    with pytest.raises(ValueError, match=message):
        mma_sync(form, registers, registers[:2], registers.view(np.float32))


def row_addresses(rng, count, warps, ctas, rows):
    """Distinct rows of 16 bytes for the lanes that count; for the others what must not be read."""
    addresses = np.full((warps, 32, ctas), 1 << 40)
    addresses[:, : 8 * count] = 16 * rng.permutation(rows)[: warps * 8 * count * ctas].reshape(warps, -1, ctas)
    return addresses


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix_move_8x8_matrices(count, transpose):
    rng = np.random.default_rng(count)
    warps, ctas = 2, 3
    shared = rng.integers(0, 256, 16 * 256, dtype=np.uint8)
    halves = shared.view(np.uint16)
    addresses = row_addresses(rng, count, warps, ctas, 256)
    loaded = ldmatrix(shared, addresses, count, transpose)
    assert loaded.shape == (count, warps, 32, ctas)
    for q, w, lane, c, e in itertools.product(range(count), range(warps), range(32), range(ctas), range(2)):
        row, column = lane // 4, 2 * (lane % 4) + e
        if transpose:
            row, column = column, row
        assert int(loaded[q, w, lane, c]) >> 16 * e & 0xFFFF == halves[addresses[w, 8 * q + row, c] // 2 + column]
    copy = np.zeros_like(shared)
    stmatrix(copy, addresses, loaded, transpose)
    written = np.zeros(256, bool)
    written[addresses[:, : 8 * count] // 16] = True
    np.testing.assert_array_equal(copy.reshape(256, 16), np.where(written[:, None], shared.reshape(256, 16), 0))


def accumulator_table(n):
    """PTX ISA, "Accumulator D" of wgmma: element i of a lane, in a warp's 16 x n part."""
    return n // 2, lambda i, g, t: (g if i % 4 < 2 else g + 8, i // 4 * 8 + t * 2 + (i & 1))


def accumulators(rng, warpgroups, ctas, n, acc_type):
    """Random D (WG, C, 64, n), its registers, and a function reading registers back."""
    values = rng.integers(-64, 65, (warpgroups, ctas, 64, n))
    # A warp holds 16 rows: (WG * 4, C, 16, n).
    per_warp = values.reshape(warpgroups, ctas, 4, 16, n).swapaxes(1, 2).reshape(-1, ctas, 16, n)
    registers = to_fragments(per_warp, DTYPES[acc_type], accumulator_table(n))

    def read():
        matrices = from_fragments(registers, DTYPES[acc_type], accumulator_table(n), 16, n)
        return matrices.reshape(warpgroups, 4, ctas, 16, n).swapaxes(1, 2).reshape(warpgroups, ctas, 64, n)

    return values, registers.view(np.float32) if acc_type == "f32" else registers, read


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("b_major", ["k", "mn"])
@pytest.mark.parametrize("a_major", ["k", "mn"])
def test_wgmma_of_operands_that_tma_loaded(a_major, b_major, span):
    rng = np.random.default_rng(span)
    warpgroups, ctas, n, depth = 2, 2, 72, 64
    window = 1 << 16
    a = rng.integers(-8, 9, (warpgroups, ctas, 64, depth)).astype(np.float16)
    b = rng.integers(-8, 9, (ctas, n, depth)).astype(np.float16)
    shared = np.zeros(1024 + ctas * window, np.uint8)
    shared_base = 1024 + window * np.arange(ctas)
    descriptors_a = [
        [place_operand(shared, base, 0x2000 * (w + 1), a[w, c], a_major, span) for c, base in enumerate(shared_base)]
        for w in range(warpgroups)
    ]
    descriptors_b = [place_operand(shared, base, 0x8000, b[c], b_major, span) for c, base in enumerate(shared_base)]
    c, registers, read = accumulators(rng, warpgroups, ctas, n, "f32")
    for k in range(0, depth, 16):
        wgmma(
            WgmmaForm(n, "f16", "f16", "f32", a_major, b_major),
            np.array([[at(k) for at in line] for line in descriptors_a], np.uint64),
            np.array([[at(k) for at in descriptors_b]] * warpgroups, np.uint64),
            shared,
            shared_base,
            registers,
            accumulate=True,
        )
    np.testing.assert_array_equal(read(), c + a.astype(int) @ b.astype(int).swapaxes(1, 2))


@pytest.mark.parametrize(
    ("a_type", "b_type", "acc_type", "a_table"),
    [
        ("f16", "f16", "f32", K16_A),
        ("f16", "f16", "f16", K16_A),
        ("bf16", "bf16", "f32", K16_A),
        ("tf32", "tf32", "f32", K8_TF32_A),
        ("e4m3", "e5m2", "f32", K32_A),
        ("e5m2", "e4m3", "f16", K32_A),
        ("s8", "u8", "s32", K32_A),
    ],
)
@pytest.mark.parametrize("arithmetic", MODES)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("from_registers", [False, True])
def test_wgmma_types_with_a_in_registers_and_in_shared_memory(
    a_type, b_type, acc_type, a_table, accumulate, from_registers, arithmetic
):
    """Every warpgroup and CTA has operands, and descriptors, of its own."""
    rng = np.random.default_rng(2)
    warpgroups, ctas, n = 2, 3, 16
    depth = 32 // np.dtype(DTYPES[a_type]).itemsize
    a = integers(rng, a_type, warpgroups, ctas, 64, depth)
    b = integers(rng, b_type, warpgroups, ctas, n, depth)
    shared = np.zeros(ctas << 16, np.uint8)
    shared_base = np.arange(ctas) << 16
    descriptors = np.zeros((2, warpgroups, ctas), np.uint64)
    for w, c in np.ndindex(warpgroups, ctas):
        for i, (operand, dtype) in enumerate(((a, DTYPES[a_type]), (b, DTYPES[b_type]))):
            address = 0x4000 * w + 0x2000 * i + 0x400 * c
            at = place_operand(shared, shared_base[c], address, operand[w, c].astype(dtype), "k", 32)
            descriptors[i, w, c] = at(0)
    fragments_a = to_fragments(
        a.reshape(warpgroups, ctas, 4, 16, depth).swapaxes(1, 2).reshape(-1, ctas, 16, depth),
        DTYPES[a_type],
        a_table,
    )
    operand_a = fragments_a if from_registers else descriptors[0]
    c, registers, read = accumulators(rng, warpgroups, ctas, n, acc_type)
    wgmma(
        WgmmaForm(n, a_type, b_type, acc_type),
        operand_a,
        descriptors[1],
        shared,
        shared_base,
        registers,
        accumulate=accumulate,
        arithmetic=arithmetic,
    )
    np.testing.assert_array_equal(read(), accumulate * c + a @ b.swapaxes(2, 3))


@pytest.mark.parametrize(("negate_a", "negate_b"), [(False, True), (True, False), (True, True)])
def test_wgmma_negates_its_operands(negate_a, negate_b):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (64, 8))
    shared, base = np.zeros(1 << 16, np.uint8), np.zeros(1, np.int64)
    at_a, at_b = place_operand(shared, 0, 0, a, "k", 32), place_operand(shared, 0, 0x2000, b, "k", 32)
    c, registers, read = accumulators(rng, 1, 1, 8, "f32")
    descriptors = np.array([[[at_a(0)]], [[at_b(0)]]], np.uint64)
    form = WgmmaForm(8, "f16", "f16", "f32", negate_a=negate_a, negate_b=negate_b)
    wgmma(form, *descriptors, shared, base, registers, accumulate=True)
    sign = 1 if negate_a == negate_b else -1
    np.testing.assert_array_equal(read()[0], c[0] + sign * (a.astype(int) @ b.astype(int).T))


def test_wgmma_refuses_what_does_not_exist():
    shared, base = np.zeros(1 << 16, np.uint8), np.zeros(1, np.int64)
    descriptors, d = np.zeros((1, 1), np.uint64), np.zeros((4, 4, 32, 1), np.float32)
    form = WgmmaForm(8, "e4m3", "e4m3", "f32", b_major="mn")
    with pytest.raises(ValueError, match="wgmma of e4m3 takes K-major operands only"):
        wgmma(form, descriptors, descriptors, shared, base, d, accumulate=False)
    with pytest.raises(ValueError, match="product of bf16 and bf16 accumulated in f16"):
        wgmma(WgmmaForm(8, "bf16", "bf16", "f16"), descriptors, descriptors, shared, base, d, accumulate=False)
    beyond = np.array([[MatrixDescriptor(0xFF00, 0, 1024, 128).encode()]], np.uint64)
    with pytest.raises(IndexError):
        wgmma(WgmmaForm(8, "f16", "f16", "f32"), beyond, descriptors, shared, base, d, accumulate=False)
