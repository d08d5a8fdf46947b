"""The formulas of fragments against the emulator's instructions, which were compared with an H200's."""

import numpy as np
import pytest

from tilewright.emulator.semantics.matrices import quad_pairs
from tilewright.emulator.semantics.matrices.fragments import (
    ELEMENT_TYPES,
    accumulate_fragments,
    fuse_fragments,
    matrix_of_a,
    matrix_of_b,
)
from tilewright.emulator.semantics.matrices.tensor_cores import ldmatrix, movmatrix, stmatrix
from tilewright.emulator.semantics.matrices.wmma import Fragment as HeldByWmma
from tilewright.emulator.semantics.matrices.wmma import accesses
from tilewright.model.fragments.instructions import ELEMENTS, fragments_of

ONE = {
    "f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F80_0000, "e4m3": 0x38, "e5m2": 0x3C, "s8": 1, "u8": 1, "s4": 1, "u4": 1,
    "b1": 1,
}  # fmt: skip
"""The bits of the number 1."""

EMULATED = {kind: element for kind, element in ELEMENTS.items() if kind in ONE or kind == "f64"}
MMA = [f"mma.m16n8k{k}.{kind}" for kind, element in EMULATED.items() for k in element.depths]
MMA += [f"mma.m8n8k{ELEMENTS[kind].depths[0]}.{kind}" for kind in ("s8", "u8", "s4", "u4", "b1", "f64")]
SPARSE = [f"mma.sp.m16n8k{k}.{kind}" for kind, element in EMULATED.items() for k in element.sparse_depths]
WGMMA = [f"wgmma.m64n{n}k{256 // ELEMENTS[kind].bits}.{kind}"
         for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1") for n in (8, 64, 256)]  # fmt: skip
MATRICES = [f"{count}{trans}" for count in ("x1", "x2", "x4") for trans in ("", ".trans")]
WMMA = [
    *(f"wmma.{shape}.{kind}" for kind in ("f16", "bf16", "s8", "u8")
      for shape in ("m16n16k16", "m32n8k16", "m8n32k16")),
    "wmma.m16n16k8.tf32", "wmma.m8n8k4.f64", "wmma.m8n8k32.s4", "wmma.m8n8k32.u4", "wmma.m8n8k128.b1",
]  # fmt: skip


def type_of(name):
    return next(word for word in name.split(".") if word in ELEMENTS)


def words(fragment, kind, flags):
    """Registers (registers, warps, 32, 1) in which the flagged elements are 1, and the others 0."""
    flags = np.moveaxis(flags.reshape(-1, 32, *flags.shape[1:]), 2, 0)  # (registers, warps, 32, elements)
    if kind == "f64":
        return flags.astype(np.float64)
    shifts = np.arange(fragment.per_register, dtype=np.uint64) * ELEMENTS[kind].bits
    return (flags.astype(np.uint64) * np.uint64(ONE[kind]) << shifts).sum(axis=-1, keepdims=True).astype(np.uint32)


def bits(numbers):
    """Whether each bit of row and column numbers is set, bit by bit."""
    return [numbers >> bit & 1 for bit in range(9)]


@pytest.mark.parametrize("name", [*MMA, *SPARSE, *WGMMA])
def test_inputs(name):
    """Bit by bit of its row and of its column, each element of A and B is where the emulator finds it."""
    kind, instruction = type_of(name), fragments_of(name)
    for fragment in instruction.fragments[:-1]:
        for places, index in zip(fragment.places, np.indices((fragment.rows, fragment.columns)), strict=True):
            for flags, expected in zip(bits(places), bits(index), strict=True):
                registers = words(fragment, kind, flags)
                if fragment.matrix == "B":
                    found = matrix_of_b(registers, kind)
                else:
                    halves = 1 if fragment.rows == 8 else 2
                    found = matrix_of_a(registers, kind, warps=fragment.lanes // 32, row_halves=halves)
                assert (found[0, 0] == expected).all()


@pytest.mark.parametrize("name", [f"{name}.{sums}" for name in [*MMA, *WGMMA] for sums in ELEMENTS[type_of(name)][1]])
def test_accumulators(name):
    fragment = fragments_of(name).of("D")
    sums = name.split(".")[-1]
    for places, index in zip(fragment.places, np.indices((fragment.rows, fragment.columns)), strict=True):
        product = index[None, None].astype(np.float32)
        shape = (fragment.registers, fragment.lanes // 32, 32, 1)
        if sums == "f64":
            a, b = product[..., :1].astype(float), np.ones((1, 1, 1, fragment.columns))
            if places is fragment.places[1]:
                a, b = np.ones((1, 1, fragment.rows, 1)), product[:, :, :1].astype(float)
            found = fuse_fragments(a, b, np.zeros(shape), "rn")
        else:
            found = accumulate_fragments(product, sums, None, np.empty(shape, np.float32 if sums == "f32" else "u4"))
        values = ELEMENT_TYPES["f16"].decode(found) if sums == "f16" else found
        assert (np.moveaxis(values.reshape(shape[0], -1, fragment.per_register), 0, 1) == places).all()


@pytest.mark.parametrize("a_layout", ["row", "col"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
@pytest.mark.parametrize("sums", ["f32", "f16"])
def test_quad_pairs(a_layout, b_layout, sums):
    instruction = fragments_of(f"mma.m8n8k4.f16.{sums}.{a_layout}.{b_layout}")
    tables = {"A": quad_pairs._PLACES_OF_A[a_layout], "B": quad_pairs._PLACES_OF_B[b_layout],
              "D": quad_pairs._PLACES_OF_C[sums]}  # fmt: skip
    for fragment in instruction.fragments:
        for places, table in zip(fragment.places, tables[fragment.matrix], strict=True):
            assert (places.reshape(32, -1) == table).all()


@pytest.mark.parametrize("name", WMMA)
def test_wmma(name):
    """What lanes access; the emulator numbers them backwards, so that no program relies on them."""
    shape, kind = name.split(".")[1:]
    instruction = fragments_of(name)
    lanes = np.arange(31, -1, -1)
    for fragment, matrix, layout in zip(instruction.fragments, ("a", "b", "d"), ("row", "col", "row"), strict=True):
        held = HeldByWmma(matrix, shape, kind if matrix != "d" else ELEMENTS[kind].accumulators[0], layout)
        bits_each = ELEMENTS[kind].bits if matrix != "d" else (64 if kind == "f64" else 32)
        stride = 1 << 10
        found = [address * 8 // bits_each for address, _ in accesses(held, lanes, np.int64(0), np.int64(stride))]
        rows, columns = (places.reshape(32, -1)[:, :: held.piece] for places in fragment.places)
        major, minor = (columns, rows) if layout == "col" else (rows, columns)
        assert (np.stack(found, axis=1) == major * stride + minor).all()


def numbered(count):
    """SMEM with `count` matrices one below another, whose elements are 8 row + column, and the lanes' addresses."""
    return np.arange(64 * count, dtype=np.uint16).view(np.uint8), 16 * np.arange(32).reshape(1, 32, 1)


@pytest.mark.parametrize("variant", MATRICES)
def test_ldmatrix(variant):
    fragment = fragments_of(f"ldmatrix.{variant}").of("matrices" if "x1" not in variant else "matrix")
    shared, addresses = numbered(fragment.registers)
    loaded = ldmatrix(shared, addresses, fragment.registers, "trans" in variant).view(np.uint16)
    rows, columns = fragment.places
    assert (np.moveaxis(loaded.reshape(fragment.registers, 32, 2), 0, 1) == 8 * rows + columns).all()


@pytest.mark.parametrize("variant", MATRICES)
def test_stmatrix(variant):
    fragment = fragments_of(f"stmatrix.{variant}").fragments[0]
    expected, addresses = numbered(fragment.registers)
    rows, columns = fragment.places
    values = np.ascontiguousarray(np.moveaxis(8 * rows + columns, 1, 0).astype(np.uint16)).view(np.uint32)
    stored = np.zeros_like(expected)
    stmatrix(stored, addresses, values.reshape(-1, 1, 32, 1), "trans" in variant)
    assert (stored == expected).all()


def test_movmatrix():
    given, got = fragments_of("movmatrix").fragments
    rows, columns = given.places
    values = np.ascontiguousarray((8 * rows + columns).astype(np.uint16)).view(np.uint32).reshape(1, 1, 32, 1)
    (moved,) = movmatrix(values)
    rows, columns = got.places
    assert (moved.view(np.uint16).reshape(32, 1, 2) == 8 * rows + columns).all()
