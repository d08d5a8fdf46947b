"""Matrix instructions over many warps at once: mma.sync, wgmma, ldmatrix, stmatrix and movmatrix.

Registers come as arrays of shape (registers, W, 32, C), or views of such, for W warps of 32 lanes in each of
C CTAs: uint32 bits, except that f32 accumulators are float32 and f64 is float64; `fragments` says what lies where.

Products are exact. An instruction's are added in float64, rounded once to float32, and added to the accumulator, or as
`accumulation` says where the arithmetic is "hardware". Integer sums are exact, and float64 is multiplied and added in
the order of k.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.matrices.accumulation import Arithmetic, adder_of, factors_of
from tilewright.emulator.semantics.matrices.fragments import (
    ELEMENT_TYPES,
    Array,
    ElementType,
    Float32,
    MmaForm,
    Words,
    accumulate_fragments,
    add_fragments,
    check_types,
    fuse_fragments,
    matrix_of_a,
    matrix_of_b,
    product_of,
    products_of_bits,
)
from tilewright.emulator.semantics.matrix_descriptor import Major, operand_chunks
from tilewright.emulator.semantics.swizzle import CHUNK

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def mma_sync(form: MmaForm, a: Words, b: Words, c: Array, arithmetic: Arithmetic = "exact") -> Array:
    """D = A B + C of mma.sync.aligned.mMn8kK.row.col for every warp.

    K is 4 or 8 times the elements per register (also 16 times for f64) in m16n8kK; m8n8kK is of integers, bits and f64.
    C and D are f32, f16 (two to a register), s32 or f64, both of one type.
    a, b: registers (registers, W, 32, C) of A and B. c: (4 or 2, W, 32, C), float32 for f32, float64 for f64, uint32
    for s32 and f16.

    Returns D in the shape and dtype of c. Raises ValueError for an unsupported combination.
    """
    element = check_types(form.a_type, form.b_type, form.d_type)
    registers = _registers_of_shapes(element)
    if registers.get(form.shape) != (len(a), len(b)):
        raise ValueError(
            f"mma shape {form.shape} for {form.a_type} with {len(a)} and {len(b)} registers is not supported: "
            "shapes, with the registers of A and B, are "
            + ", ".join(f"{name} ({of_a} and {of_b})" for name, (of_a, of_b) in registers.items())
        )
    halves = 1 if form.shape.startswith("m8") else 2
    matrix_a, matrix_b = matrix_of_a(a, form.a_type, row_halves=halves), matrix_of_b(b, form.b_type)
    if form.a_type == "f64":
        return fuse_fragments(matrix_a, matrix_b, c, form.rounding)
    d = np.empty(c.shape, c.dtype)
    if adder := adder_of(arithmetic, "mma", element.family):
        factors = factors_of(matrix_a, matrix_b, form.a_type, form.b_type)
        return add_fragments(adder, factors, form.d_type, c, d, (*matrix_a.shape[:3], matrix_b.shape[3]))
    product = product_of(matrix_a, matrix_b)
    if form.exclusive:
        product = products_of_bits(product, matrix_a, matrix_b)
    return accumulate_fragments(product, form.d_type, c, d, saturate=form.saturate)


def _registers_of_shapes(element: ElementType) -> dict[str, tuple[int, int]]:
    """Shape -> registers of A and of B."""
    step = 4 * element.per_register
    shapes = {
        f"m16n8k{step * count}": (2 * count, count) for count in (1, 2, *((4,) if element.family == "f64" else ()))
    }
    if element.family in ("integer", "int4", "bits", "f64"):
        shapes[f"m8n8k{step}"] = (1, 1)
    return shapes


def movmatrix(registers: Words) -> list[Words]:
    """movmatrix.sync.aligned.m8n8.trans.b16 of (1, W, 32, C): an 8 x 8 matrix, transposed, for every warp."""
    _, warps, _, ctas = registers.shape
    rows = np.ascontiguousarray(registers[0].swapaxes(1, 2)).view(np.uint16).reshape(warps, ctas, 8, 8)
    words = np.ascontiguousarray(rows.swapaxes(2, 3)).view(np.uint32)
    return [words.reshape(warps, ctas, 32).swapaxes(1, 2)]


WGMMA_M = 64
WGMMA_K_BYTES = 32


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """The qualifiers and immediates of a wgmma.mma_async; K is WGMMA_K_BYTES of elements."""

    n: int
    a_type: str
    b_type: str
    accumulator: str
    a_major: Major = "k"
    b_major: Major = "k"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False

    @property
    def shape(self) -> str:
        """The shape as in PTX, such as m64n128k16."""
        return f"m{WGMMA_M}n{self.n}k{8 * ELEMENT_TYPES[self.a_type].per_register}"


def wgmma(
    form: WgmmaForm,
    a: npt.NDArray[Any],
    b: npt.NDArray[np.uint64],
    shared: Bytes,
    shared_base: Integers,
    d: Array,
    *,
    accumulate: bool,
    arithmetic: Arithmetic = "exact",
) -> None:
    """D = A B + D, or A B, of wgmma.mma_async.sync.aligned.m64nNkK for every warpgroup, in place.

    Types as for mma_sync.
    a: descriptors (WG, C) uint64 or register fragments (4, 4 WG, 32, C) uint32. b: descriptors (WG, C).
    shared: flat, its size a multiple of 16 bytes. shared_base: (C,), multiples of 16, the offset in `shared`
    of each CTA's shared memory, to which descriptors are relative.
    d: the accumulators, a view of shape (N / 2, 4 WG, 32, C), float32 for f32 and uint32 for s32, or
    (N / 4, 4 WG, 32, C) uint32 for f16. accumulate: scale-d.

    Raises ValueError for an unsupported combination or descriptor and IndexError for an operand that leaves
    `shared`; use matrix_descriptor.operand_extent to see whether one leaves its CTA's part.
    """
    element = check_types(form.a_type, form.b_type, form.accumulator)
    if "mn" in (form.a_major, form.b_major) and form.a_type not in ("f16", "bf16"):
        raise ValueError(f"wgmma of {form.a_type} takes K-major operands only; MN-major ones are of 16-bit types")
    if a.dtype == np.uint64:
        matrix_a = _shared_operand(a, form.a_type, WGMMA_M, form.a_major, shared, shared_base)
    else:
        matrix_a = matrix_of_a(a, form.a_type, warps=4)
    matrix_b = _shared_operand(b, form.b_type, form.n, form.b_major, shared, shared_base).swapaxes(2, 3)
    if form.negate_a != form.negate_b:
        matrix_a = -matrix_a
    # CTAs lie next to columns in memory: the transposing sum then strides less far.
    _, warps, _, ctas = d.shape
    c = d if accumulate else None
    if adder := adder_of(arithmetic, "wgmma", element.family):
        factors = factors_of(matrix_a, matrix_b, form.a_type, form.b_type)
        add_fragments(adder, factors, form.accumulator, c, d, (warps // 4, ctas, WGMMA_M, form.n))
        return
    product = np.empty((warps // 4, WGMMA_M, ctas, form.n), np.float32).swapaxes(1, 2)
    accumulate_fragments(product_of(matrix_a, matrix_b, product), form.accumulator, c, d, saturate=form.saturate)


def ldmatrix(shared: Bytes, addresses: Integers, count: int, transpose: bool) -> Words:
    """ldmatrix.sync.aligned.m8n8.x{count}{.trans}.shared.b16 for every warp.

    shared: flat, its size a multiple of 16 bytes.
    addresses: (W, 32, C), offsets in `shared`, multiples of 16 and not negative, which the caller checks; lane 8 q + r
    has that of row r of matrix q, and further lanes' are ignored.

    Returns (count, W, 32, C). Raises IndexError for an address beyond `shared`.
    """
    chunks = _row_chunks(addresses, count)  # (matrix, W, row, C)
    rows = shared.view(CHUNK).take(chunks)
    _, warps, _, ctas = rows.shape
    if transpose:
        # Lane 4 g + t holds rows 2 t and 2 t + 1 of column g.
        elements = rows.view(np.uint16).reshape(count, warps, 4, 2, ctas, 8)  # (matrix, W, t, e, C, g)
        halves = np.empty((count, warps, 8, 4, ctas, 2), np.uint16)
        for e in range(2):  # one at a time, so the innermost loop of the copy is long
            halves[..., e] = elements[:, :, :, e].transpose(0, 1, 4, 2, 3)
        fragments = halves.view(np.uint32)
    else:
        # Lane 4 g + t holds elements 2 t and 2 t + 1 of row g.
        fragments = rows.view(np.uint32).reshape(count, warps, 8, ctas, 4).swapaxes(3, 4)
    return fragments.reshape(count, warps, 32, ctas)


def stmatrix(shared: Bytes, addresses: Integers, values: Words, transpose: bool) -> None:
    """stmatrix.sync.aligned.m8n8.x{count}{.trans}.shared.b16 for every warp: the inverse of ldmatrix.

    values: (count, W, 32, C). Other arguments and errors as for ldmatrix.
    """
    chunks = _row_chunks(addresses, len(values))
    count, warps, _, ctas = values.shape
    lanes = values.reshape(count, warps, 8, 4, ctas)  # (matrix, W, g, t, C)
    if transpose:
        elements = np.ascontiguousarray(lanes).view(np.uint16).reshape(*lanes.shape, 2)
        rows = np.ascontiguousarray(elements.transpose(0, 1, 3, 5, 4, 2))  # (matrix, W, t, e, C, g)
    else:
        rows = np.ascontiguousarray(lanes.transpose(0, 1, 2, 4, 3))
    shared.view(CHUNK)[chunks] = rows.view(CHUNK).reshape(chunks.shape)


def _row_chunks(addresses: Integers, count: int) -> Integers:
    """Chunk indices (matrix, W, row, C) of the rows that ldmatrix and stmatrix address."""
    warps, _, ctas = addresses.shape
    return addresses[:, : 8 * count].reshape(warps, count, 8, ctas).swapaxes(0, 1) >> 4


def _shared_operand(
    descriptors: npt.NDArray[np.uint64],
    element_type: str,
    rows: int,
    major: Major,
    shared: Bytes,
    shared_base: Integers,
) -> Float32:
    """The operands at descriptors (WG, C): (WG, C, rows, K), or (1, C, rows, K) if warpgroups share them."""
    if (descriptors == descriptors[0]).all():
        descriptors = descriptors[:1]
    if (descriptors == descriptors[:, :1]).all():
        chunks = np.stack([operand_chunks(int(d), rows, major) for d in descriptors[:, 0]])[:, None]
    else:
        chunks = np.stack([[operand_chunks(int(d), rows, major) for d in line] for line in descriptors])
    data = shared.view(CHUNK).take(chunks + (shared_base >> 4)[:, None, None])
    values = ELEMENT_TYPES[element_type].decode(data.view(np.uint32))
    return values if major == "k" else values.swapaxes(2, 3)
