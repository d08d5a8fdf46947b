"""Matrix instructions over many warps at once: mma.sync, wgmma, ldmatrix and stmatrix.

Registers come as arrays of shape (registers, W, 32, C), or views of such, for W warps of 32 lanes in each of
C CTAs: uint32 bits, except that f32 accumulators are float32. All fragments have one layout (PTX ISA, "Matrix
Fragments for mma.m16n8k16" and its siblings, "Register Fragments and Shared Memory Matrix Layouts" of wgmma).
With g = lane // 4, t = lane % 4 and p elements in a register, element e of register i lies at

    A, 16 x K     row  g + 8 (i % 2)         column  p t + e + 4 p (i // 2)       2 or 4 registers
    B, K x 8      row  p t + e + 4 p i       column  g                            1 or 2 registers
    D, 16 x N     row  g + 8 (i // 2 % 2)    column  2 t + i % 2 + 8 (i // 4)     32-bit accumulators
                  row  g + 8 (i % 2)         column  2 t + e + 8 (i // 2)         16-bit accumulators, p = 2

and warp w of a warpgroup holds rows 16 w and up of its 64. So a fragment is a matrix whose axes are split and
permuted, and a transposing copy converts one to the other.

Products are exact and sums are float32, in an order that is not the hardware's; integer sums are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilewright.emulator.matrix_descriptor import Major, operand_chunks
from tilewright.emulator.swizzle import CHUNK

Array = npt.NDArray[np.generic]
Float32 = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _ElementType:
    """An input type of the tensor cores.

    per_register: elements in 32 bits. decode: C-ordered words (..., n) to the float32 values of their
    elements, (..., n * per_register). family: types that one instruction may mix. accumulators: their types.
    """

    per_register: int
    decode: Callable[[Words], Float32]
    family: str
    accumulators: tuple[str, ...]


def _decode_table(dtype: npt.DTypeLike) -> Callable[[Words], Float32]:
    """A decoder of elements that are few enough to tabulate."""
    bits = 8 * np.dtype(dtype).itemsize
    word = np.dtype(f"u{bits // 8}")
    values = np.arange(1 << bits, dtype=word).view(dtype).astype(np.float32)
    return lambda words: values.take(words.view(word))


_ELEMENT_TYPES = {
    "f16": _ElementType(2, _decode_table(np.float16), "f16", ("f32", "f16")),
    "bf16": _ElementType(
        2,
        lambda words: (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32),
        "bf16",
        ("f32",),
    ),
    # The hardware ignores the 13 low bits.
    "tf32": _ElementType(1, lambda words: (words & np.uint32(0xFFFFE000)).view(np.float32), "tf32", ("f32",)),
    "e4m3": _ElementType(4, _decode_table(ml_dtypes.float8_e4m3fn), "fp8", ("f32", "f16")),
    "e5m2": _ElementType(4, _decode_table(ml_dtypes.float8_e5m2), "fp8", ("f32", "f16")),
    "s8": _ElementType(4, lambda words: words.view(np.int8).astype(np.float32), "integer", ("s32",)),
    "u8": _ElementType(4, lambda words: words.view(np.uint8).astype(np.float32), "integer", ("s32",)),
}


def mma_sync(shape: str, a_type: str, b_type: str, acc_type: str, a: Words, b: Words, c: Array) -> Array:
    """D = A B + C of mma.sync.aligned.m16n8kK.row.col for every warp.

    shape: "m16n8k16" and the like, K being 4 or 8 times the elements per register. a_type, b_type: f16, bf16,
    tf32, e4m3, e5m2, s8 or u8. acc_type: f32, f16 (two to a register) or s32.
    a: (2 or 4, W, 32, C). b: (1 or 2, W, 32, C). c: (4, W, 32, C) float32 for f32 and uint32 for s32, or
    (2, W, 32, C) uint32 for f16.

    Returns D in the shape and dtype of c. Raises ValueError for an unsupported combination.
    """
    element = _check_types(a_type, b_type, acc_type)
    registers = {f"m16n8k{4 * h * element.per_register}": (2 * h, h) for h in (1, 2)}
    if registers.get(shape) != (len(a), len(b)):
        raise ValueError(
            f"mma shape {shape} for {a_type} with {len(a)} and {len(b)} registers is not supported: "
            f"shapes, with the registers of A and B, are {registers}"
        )
    product = np.matmul(_matrix_a(a, a_type, warps=1), _matrix_b(b, b_type))
    return _accumulate(product, acc_type, c, np.empty(c.shape, c.dtype))


def wgmma(
    n: int,
    a_type: str,
    b_type: str,
    acc_type: str,
    a: npt.NDArray[Any],
    b: npt.NDArray[np.uint64],
    shared: Bytes,
    shared_base: Integers,
    d: Array,
    *,
    accumulate: bool,
    a_major: Major = "k",
    b_major: Major = "k",
    negate_a: bool = False,
    negate_b: bool = False,
) -> None:
    """D = A B + D, or A B, of wgmma.mma_async.sync.aligned.m64nNkK for every warpgroup, in place.

    K is 32 bytes of elements. Types as for mma_sync.
    a: descriptors (WG, C) uint64 or register fragments (4, 4 WG, 32, C) uint32. b: descriptors (WG, C).
    shared: flat, its size a multiple of 16 bytes. shared_base: (C,), multiples of 16, the offset in `shared`
    of each CTA's shared memory, to which descriptors are relative.
    d: the accumulators, a view of shape (N / 2, 4 WG, 32, C), float32 for f32 and uint32 for s32, or
    (N / 4, 4 WG, 32, C) uint32 for f16. accumulate: scale-d.

    Raises ValueError for an unsupported combination or descriptor and IndexError for an operand that leaves
    `shared`; use matrix_descriptor.operand_extent to see whether one leaves its CTA's part.
    """
    _check_types(a_type, b_type, acc_type)
    if "mn" in (a_major, b_major) and a_type not in ("f16", "bf16"):
        raise ValueError(f"wgmma of {a_type} takes K-major operands only; MN-major ones are of 16-bit types")
    if a.dtype == np.uint64:
        matrix_a = _shared_operand(a, a_type, 64, a_major, shared, shared_base)
    else:
        matrix_a = _matrix_a(a, a_type, warps=4)
    matrix_b = _shared_operand(b, b_type, n, b_major, shared, shared_base).swapaxes(2, 3)
    if negate_a != negate_b:
        matrix_a = -matrix_a
    # CTAs lie next to columns in memory: the transposing sum then strides less far.
    _, warps, _, ctas = d.shape
    product = np.empty((warps // 4, 64, ctas, n), np.float32).swapaxes(1, 2)
    np.matmul(matrix_a, matrix_b, out=product)
    _accumulate(product, acc_type, d if accumulate else None, d)


def ldmatrix(shared: Bytes, addresses: Integers, count: int, transpose: bool) -> Words:
    """ldmatrix.sync.aligned.m8n8.x{count}{.trans}.shared.b16 for every warp.

    shared: flat, its size a multiple of 16 bytes. addresses: (W, 32, C), offsets in `shared`, multiples of 16
    and not negative, which the caller checks; lane 8 q + r has that of row r of matrix q, and further lanes'
    are ignored.

    Returns (count, W, 32, C). Raises IndexError for an address beyond `shared`.
    """
    chunks = _row_chunks(addresses, count)  # (matrix, W, row, C)
    rows = shared.view(CHUNK).take(chunks)
    _, warps, _, ctas = rows.shape
    if transpose:
        # Lane 4 g + t holds rows 2 t and 2 t + 1 of column g.
        elements = rows.view(np.uint16).reshape(count, warps, 4, 2, ctas, 8)  # (matrix, W, t, e, C, g)
        halves = np.empty((count, warps, 8, 4, ctas, 2), np.uint16)
        for e in range(2):  # one at a time, so that the innermost loop of the copy is long
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


def _check_types(a_type: str, b_type: str, acc_type: str) -> _ElementType:
    """The element type of A, if the three types may occur in one instruction."""
    a, b = _ELEMENT_TYPES.get(a_type), _ELEMENT_TYPES.get(b_type)
    if a is None or b is None or a.family != b.family or acc_type not in a.accumulators:
        allowed = "; ".join(f"{name} in {' or '.join(t.accumulators)}" for name, t in _ELEMENT_TYPES.items())
        raise ValueError(
            f"a product of {a_type} and {b_type} accumulated in {acc_type} is not supported: "
            f"both inputs must be of one type (fp8 and integer types may be mixed), accumulated so: {allowed}"
        )
    return a


def _matrix_a(registers: Words, element_type: str, warps: int) -> Float32:
    """A of tiles of `warps` consecutive warps: (tile, C, 16 warps, K)."""
    count, total, _, ctas = registers.shape
    tiles = total // warps
    axes = registers.reshape(count // 2, 2, tiles, warps, 8, 4, ctas)  # (k half, row half, tile, warp, g, t, C)
    words = np.ascontiguousarray(axes.transpose(2, 6, 3, 1, 4, 0, 5)).reshape(tiles, ctas, 16 * warps, -1)
    return _ELEMENT_TYPES[element_type].decode(words)


def _matrix_b(registers: Words, element_type: str) -> Float32:
    """B of each warp: (W, C, K, 8)."""
    halves, warps, _, ctas = registers.shape
    axes = registers.reshape(halves, warps, 8, 4, ctas)  # (k half, warp, g, t, C)
    words = np.ascontiguousarray(axes.transpose(1, 4, 2, 0, 3)).reshape(warps, ctas, 8, -1)
    return _ELEMENT_TYPES[element_type].decode(words).swapaxes(2, 3)


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
    values = _ELEMENT_TYPES[element_type].decode(data.view(np.uint32))
    return values if major == "k" else values.swapaxes(2, 3)


def _accumulate(product: Float32, acc_type: str, c: Array | None, d: Array) -> Array:
    """D = C + product, in fragments.

    product: (tile, C, M, N) for tiles of M / 16 warps. c: (registers, tiles * M / 16, 32, C), zero if None.
    d: receives the result, of c's shape and possibly c itself.
    """
    tiles, ctas, m, n = product.shape
    axes = product.reshape(tiles, ctas, m // 16, 2, 8, n // 8, 4, 2)  # (tile, C, warp, row half, g, n / 8, t, e)
    if acc_type == "f16":
        pairs = axes.transpose(5, 3, 0, 2, 4, 6, 1, 7).reshape(*d.shape, 2)
        total = (
            pairs if c is None else pairs + _ELEMENT_TYPES["f16"].decode(np.ascontiguousarray(c)).reshape(pairs.shape)
        )
        d[...] = total.astype(np.float16, order="C").view(np.uint32)[..., 0]
        return d
    fragments = axes.transpose(5, 3, 7, 0, 2, 4, 6, 1)
    if acc_type == "s32":
        fragments = fragments.astype(np.int32).view(np.uint32)
    target = d.reshape(fragments.shape)
    if c is None:
        target[...] = fragments
    else:
        np.add(c.reshape(fragments.shape), fragments, out=target)
    return d
