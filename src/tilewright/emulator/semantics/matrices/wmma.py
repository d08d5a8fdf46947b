"""wmma: matrices of a warp that are loaded, multiplied and stored as a whole.

PTX leaves open which elements a lane holds (PTX ISA, "Matrix Fragments for WMMA"). Here each lane holds the elements
that ptxas lets it access on sm_80 and later, so the counters agree with hardware: a warp accesses 8 rows of 16 bytes of
A or B at once, and of C and D two elements a lane, or the nearest to that which the shape allows. "Rows" are the lines
in memory, for C and D always the matrix's. Further registers (of f16, which always has eight) repeat the others. The
lanes count backwards, so a program fails here if it relies on some order, or forgets that other lanes hold what it
needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.emulator.lanes import WARP, Indices
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic, adder_of, factors_of, hardware_sum
from tilewright.emulator.semantics.matrices.fragments import (
    ELEMENT_TYPES,
    Array,
    MmaForm,
    Values,
    Words,
    add_integers,
    check_types,
    fused_product,
    product_of,
    products_of_bits,
)

_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ("m16n16k16", "m32n8k16", "m8n32k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "b1": ("m8n8k128",),
}  # fmt: skip
"""Type of A and B -> shapes."""
_BITS = {
    "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Fragment:
    """A fragment: matrix a, b, c or d of a shape, the PTX type of its elements, and its order in memory."""

    matrix: str
    shape: str
    kind: str
    layout: str = "row"

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n, k = extents_of(self.shape)
        return {"a": (m, k), "b": (k, n)}.get(self.matrix, (m, n))

    @property
    def elements(self) -> int:
        """The number of different elements of a lane."""
        rows, columns = self.extents
        return rows * columns // WARP

    @property
    def unit_bytes(self) -> int:
        """The size of an access unit in memory: an element, or a register of elements narrower than a byte."""
        return _BITS[self.kind] // 8 or 4

    @property
    def per_unit(self) -> int:
        """Elements in a unit."""
        return 8 * self.unit_bytes // _BITS[self.kind]

    @property
    def per_register(self) -> int:
        """Elements in a register."""
        return 1 if self.kind == "f64" else 32 // _BITS[self.kind]

    @property
    def registers(self) -> int:
        """Registers of a lane."""
        return 8 if self.kind == "f16" and self.matrix in "ab" else self.elements // self.per_register

    @property
    def piece(self) -> int:
        """The neighbors in a line that a lane accesses at once: those of a register; for C and D at least two."""
        return self.per_register if self.matrix in "ab" else 2


def extents_of(shape: str) -> tuple[int, int, int]:
    """M, N and K of a shape such as m16n8k16."""
    m, rest = shape.removeprefix("m").split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@cache
def _places(fragment: Fragment) -> tuple[Indices, Indices]:
    """Row and column (32, elements) of each lane's elements."""
    by_columns = fragment.matrix in "ab" and fragment.layout == "col"
    lines, length = fragment.extents[::-1] if by_columns else fragment.extents
    pieces = length // fragment.piece
    across = max(min(4, pieces), WARP // lines)
    down = WARP // across
    lane, index = np.ogrid[:WARP, : fragment.elements]
    lane = WARP - 1 - lane
    turn, within = index // fragment.piece, index % fragment.piece
    line = lane // across + turn % (lines // down) * down
    position = (lane % across + turn // (lines // down) * across) * fragment.piece + within
    return (position, line) if by_columns else (line, position)


@cache
def _flat_places(fragment: Fragment) -> Indices:
    """The position of each element of each lane in the matrix in row order."""
    row, column = _places(fragment)
    return (row * fragment.extents[1] + column).reshape(-1)


def accesses(fragment: Fragment, lane: Indices, address: Values, stride: Values) -> Iterator[tuple[Values, int]]:
    """The address and the units of each access of lanes, given by their numbers in the warp.

    stride: elements between the starts of lines.
    """
    contiguous = fragment.matrix in "ab" or fragment.layout == "row"
    piece = fragment.piece if contiguous else 1
    bits, byte = (address.dtype.type(bits) for bits in (_BITS[fragment.kind], 8))
    rows, columns = _places(fragment)
    for index in range(0, fragment.elements, piece):
        row, column = (places[lane, index] for places in (rows, columns))
        major, minor = (row, column) if fragment.layout == "row" else (column, row)
        offset = major.astype(address.dtype) * stride.astype(address.dtype) + minor.astype(address.dtype)
        yield address + offset * bits // byte, piece // fragment.per_unit


def registers_of_elements(fragment: Fragment, elements: Sequence[Array]) -> list[Array]:
    """The registers of a fragment, made from the values that its accesses load: (lanes,) each."""
    words = np.ascontiguousarray(np.stack(elements, axis=-1)).view("u8" if fragment.kind == "f64" else "u4")
    return [words[:, index % words.shape[1]] for index in range(fragment.registers)]


def elements_of_registers(fragment: Fragment, registers: Sequence[Array]) -> Array:
    """The values that a fragment's accesses store, (elements, lanes), made from its registers."""
    words = np.ascontiguousarray(np.stack(registers, axis=-1))
    return words.view(f"u{fragment.unit_bytes}").T


def multiply(form: MmaForm, a: Array, b: Array, c: Array, arithmetic: Arithmetic = "exact") -> list[Array]:
    """wmma.mma for every warp.

    a, b, c: registers (registers, W, 32, C), float32 for f32, float64 for f64, else words; A and B have the layouts
    with which they were loaded. Returns registers of D. Raises ValueError for an unsupported combination.
    """
    shape, kind, (a_layout, b_layout) = form.shape, form.a_type, form.layouts
    element = check_types(kind, form.b_type, form.d_type)
    if kind != form.b_type:
        raise ValueError(f"wmma of {kind} and {form.b_type} is not supported: A and B are of one type")
    if shape not in _SHAPES[kind]:
        raise ValueError(f"wmma shape {shape} of {kind} is not supported: shapes are {', '.join(_SHAPES[kind])}")
    matrix_a = _matrix(Fragment("a", shape, kind, a_layout), a)
    matrix_b = _matrix(Fragment("b", shape, kind, b_layout), b)
    of_c, of_d = Fragment("c", shape, form.c_type), Fragment("d", shape, form.d_type)
    if kind == "f64":
        fused = fused_product(matrix_a, matrix_b, _matrix(of_c, c), form.rounding)
        return list(np.moveaxis(_lanes(of_d, fused), -1, 0))
    if adder := adder_of(arithmetic, "wmma", element.family):
        accumulator = "f16" if form.c_type == form.d_type == "f16" else "f32"  # mixed: f32, and D is rounded once more
        factors = factors_of(matrix_a, matrix_b, kind, kind)
        total: Array = _lanes(of_d, hardware_sum(adder, factors, _matrix(of_c, c), accumulator))
    else:
        product = product_of(matrix_a, matrix_b)
        if form.exclusive:
            product = products_of_bits(product, matrix_a, matrix_b)
        lanes = _lanes(of_d, product)
        if form.d_type == "s32":
            total = add_integers(lanes, np.moveaxis(c, 0, -1), form.saturate)
        else:
            total = lanes + _lanes(of_d, _matrix(of_c, c))
    if form.d_type == "f16":
        total = np.ascontiguousarray(total.astype(np.float16)).view(np.uint32)
    return list(np.moveaxis(total, -1, 0))


def _lanes(fragment: Fragment, matrix: Values) -> Values:
    """The elements of each lane, (W, 32, C, elements), of a matrix (W, C, rows, columns)."""
    warps, ctas = matrix.shape[:2]
    held = matrix.reshape(warps, ctas, -1)[..., _flat_places(fragment)]
    return np.moveaxis(held.reshape(warps, ctas, WARP, -1), 1, 2)


def _matrix(fragment: Fragment, registers: Array) -> Values:
    """The matrix (W, C, rows, columns) of registers (registers, W, 32, C)."""
    used = registers[: fragment.elements // fragment.per_register]
    words: Words = np.ascontiguousarray(used.transpose(1, 3, 2, 0))
    warps, ctas = words.shape[:2]
    elements = words if fragment.kind == "f32" else ELEMENT_TYPES[fragment.kind].decode(words)
    held = elements.reshape(warps, ctas, -1)
    matrix = np.empty_like(held)
    matrix[..., _flat_places(fragment)] = held
    return matrix.reshape(warps, ctas, *fragment.extents)
