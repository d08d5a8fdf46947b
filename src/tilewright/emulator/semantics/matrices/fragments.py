"""The fragments of mma and wgmma: the elements of a matrix in the registers of a warp.

All of mma.m16n8kK, mma.m8n8kK and wgmma have one layout (PTX ISA, "Matrix Fragments for mma.m16n8k16" and its
siblings, "Register Fragments and Shared Memory Matrix Layouts" of wgmma), except that m8n8k4 of f16 has its own
(`quad_pairs`). With g = lane // 4, t = lane % 4 and p elements in a register, element e of register i lies at

    A, 16 x K     row  g + 8 (i % 2)         column  p t + e + 4 p (i // 2)
    A,  8 x K     row  g                     column  p t + e
    B, K x 8      row  p t + e + 4 p i       column  g
    D, 16 x N     row  g + 8 (i // 2 % 2)    column  2 t + i % 2 + 8 (i // 4)     one accumulator in a register
                  row  g + 8 (i % 2)         column  2 t + e + 8 (i // 2)         16-bit accumulators, p = 2
    D,  8 x 8     row  g                     column  2 t + i

and warp w of a warpgroup holds rows 16 w and up of its 64. So a fragment is a matrix whose axes are split and
permuted, and a transposing copy converts one to the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.conversions import TF32_BITS
from tilewright.emulator.semantics.directed_rounding import rounded_double
from tilewright.emulator.semantics.matrices.accumulation import Adder, Factors, hardware_sum
from tilewright.emulator.semantics.scalars import fused_double

Array: TypeAlias = npt.NDArray[np.generic]
Float32: TypeAlias = npt.NDArray[np.float32]
Words: TypeAlias = npt.NDArray[np.uint32]
Values: TypeAlias = npt.NDArray[Any]
"""Elements as numbers: float32, or float64 for f64."""


@dataclass(frozen=True)
class ElementType:
    """An input type of the tensor cores.

    per_register: elements in a register.
    decode: C-ordered registers (..., n) to the values of their elements, (..., n * per_register), in float32 or, for
    f64, float64.
    family: types that one instruction may mix.
    accumulators: the types of accumulators.
    """

    per_register: int
    decode: Callable[[Any], Values]
    family: str
    accumulators: tuple[str, ...]


def _decode_table(dtype: npt.DTypeLike) -> Callable[[Any], Values]:
    """A decoder of elements that are few enough to tabulate."""
    bits = 8 * np.dtype(dtype).itemsize
    word = np.dtype(f"u{bits // 8}")
    values = np.arange(1 << bits, dtype=word).view(dtype).astype(np.float32)
    return lambda words: values.take(words.view(word))


def _nibbles(words: Words) -> npt.NDArray[np.int8]:
    pairs = words.view(np.int8)
    return np.stack([pairs & np.int8(15), pairs >> 4 & 15], axis=-1).astype(np.int8).reshape(*pairs.shape[:-1], -1)


def _bits(words: Words) -> npt.NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")


ELEMENT_TYPES = {
    "f16": ElementType(2, _decode_table(np.float16), "f16", ("f32", "f16")),
    "bf16": ElementType(
        2,
        lambda words: (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32),
        "bf16",
        ("f32",),
    ),
    # The hardware ignores the 13 low bits.
    "tf32": ElementType(1, lambda words: (words & TF32_BITS).view(np.float32), "tf32", ("f32",)),
    "e4m3": ElementType(4, _decode_table(ml_dtypes.float8_e4m3fn), "fp8", ("f32", "f16")),
    "e5m2": ElementType(4, _decode_table(ml_dtypes.float8_e5m2), "fp8", ("f32", "f16")),
    "s8": ElementType(4, lambda words: words.view(np.int8).astype(np.float32), "integer", ("s32",)),
    "u8": ElementType(4, lambda words: words.view(np.uint8).astype(np.float32), "integer", ("s32",)),
    "s4": ElementType(8, lambda words: (_nibbles(words) ^ np.int8(8)).astype(np.float32) - 8, "int4", ("s32",)),
    "u4": ElementType(8, lambda words: _nibbles(words).astype(np.float32), "int4", ("s32",)),
    "b1": ElementType(32, lambda words: _bits(words).astype(np.float32), "bits", ("s32",)),
    "f64": ElementType(1, lambda values: values, "f64", ("f64",)),
}


@dataclass(frozen=True, slots=True)
class MmaForm:
    """The qualifiers of mma, mma.sp or wmma.mma.

    shape: such as "m16n8k16". Types are PTX's.
    layouts: of A and B, "row" or "col".
    saturate: .satfinite of s32 sums.
    exclusive: products of bits are .xor instead of .and.
    rounding: of f64.
    """

    shape: str
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    layouts: tuple[str, str] = ("row", "col")
    saturate: bool = False
    exclusive: bool = False
    rounding: str = "rn"


def check_types(a_type: str, b_type: str, acc_type: str) -> ElementType:
    """The element type of A, if one instruction may have the three types."""
    a, b = ELEMENT_TYPES.get(a_type), ELEMENT_TYPES.get(b_type)
    if a is None or b is None or a.family != b.family or acc_type not in a.accumulators:
        allowed = "; ".join(f"{name} in {' or '.join(t.accumulators)}" for name, t in ELEMENT_TYPES.items())
        raise ValueError(
            f"a product of {a_type} and {b_type} accumulated in {acc_type} is not supported: "
            f"both inputs must be of one type (fp8 and integer types may be mixed), accumulated so: {allowed}"
        )
    return a


def matrix_of_a(registers: Array, element_type: str, *, warps: int = 1, row_halves: int = 2) -> Values:
    """A of tiles of `warps` consecutive warps with 8 or 16 (row_halves = 2) rows each: (tile, C, rows, K)."""
    count, total, _, ctas = registers.shape
    tiles = total // warps
    # (k part, row half, tile, warp, g, t, C)
    axes = registers.reshape(count // row_halves, row_halves, tiles, warps, 8, 4, ctas)
    words = np.ascontiguousarray(axes.transpose(2, 6, 3, 1, 4, 0, 5)).reshape(tiles, ctas, 8 * row_halves * warps, -1)
    return ELEMENT_TYPES[element_type].decode(words)


def matrix_of_b(registers: Array, element_type: str) -> Values:
    """B of each warp: (W, C, K, 8)."""
    parts, warps, _, ctas = registers.shape
    axes = registers.reshape(parts, warps, 8, 4, ctas)  # (k part, warp, g, t, C)
    words = np.ascontiguousarray(axes.transpose(1, 4, 2, 0, 3)).reshape(warps, ctas, 8, -1)
    return ELEMENT_TYPES[element_type].decode(words).swapaxes(2, 3)


def product_of(a: Values, b: Values, out: Values | None = None) -> Values:
    """A B of each pair of matrices, of types other than f64: float32, into `out` if it is given.

    Sums are made in float64 and rounded once. In float32, BLAS adds in an order that depends on the CPU and the
    extents, and with it the bits of a result would.
    """
    if out is None:
        out = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(a, b, out=out, dtype=np.float64, casting="same_kind")
    return out


_REGISTERS_FIRST = (5, 3, 7, 0, 2, 4, 6, 1)
"""The order of the axes below in fragments of accumulators with one element to a register."""
_PAIRS_LAST = (5, 3, 0, 2, 4, 6, 1, 7)
"""The same with two elements to a register."""


def _axes(product: Values) -> Values:
    """A view of (tile, C, M, N) as (tile, C, warp, row half, g, n / 8, t, e)."""
    tiles, ctas, m, n = product.shape
    halves = min(m // 8, 2)
    return product.reshape(tiles, ctas, m // (8 * halves), halves, 8, n // 8, 4, 2)


def fuse_fragments(a: Values, b: Values, c: Array, mode: str) -> Array:
    """D = A B + C of f64 in fragments like c, see fused_product. a: (tile, C, M, K), b: (..., K, N)."""
    total = fused_product(a, b, matrix_of_c(c, "f64", (*a.shape[:3], b.shape[3])), mode)
    return _axes(total).transpose(_REGISTERS_FIRST).reshape(c.shape)


def fused_product(a: Values, b: Values, c: Values, mode: str) -> Values:
    """A B + C of float64, rounded (rn, rz, rm, rp) at each multiply-add in the order of k, as on an H200."""
    multiply_add = fused_double if mode == "rn" else partial(rounded_double, "fma", mode)
    for k in range(a.shape[-1]):
        c = multiply_add(a[..., :, k, None], b[..., k, None, :], c)
    return c


def matrix_of_c(c: Array, acc_type: str, shape: tuple[int, ...]) -> Values:
    """C of this shape, (tile, C, M, N), from fragments as accumulate_fragments takes them; f16 as float32."""
    matrix = np.empty(shape, np.float64 if acc_type == "f64" else np.float32)
    inner = _axes(matrix).transpose(_PAIRS_LAST if acc_type == "f16" else _REGISTERS_FIRST)
    values = ELEMENT_TYPES["f16"].decode(np.ascontiguousarray(c)) if acc_type == "f16" else c
    inner[...] = values.reshape(inner.shape)
    return matrix


def products_of_bits(product: Values, a: Values, b: Values) -> Values:
    """The number of bits in which rows of A and columns of B differ, from the number of ones that they share."""
    return np.asarray(a.sum(axis=-1, keepdims=True) + b.sum(axis=-2, keepdims=True) - 2 * product)


def accumulate_fragments(product: Values, acc_type: str, c: Array | None, d: Array, *, saturate: bool = False) -> Array:
    """D = C + product, in fragments.

    product: (tile, C, M, N), for M = 8 of one warp, else of M / 16.
    c: (registers, warps, 32, C), zero if None.
    d: receives the result, of c's shape and possibly c itself.
    saturate: clamp s32 instead of wrapping.
    """
    axes = _axes(product)
    if acc_type == "f16":
        pairs = axes.transpose(_PAIRS_LAST).reshape(*d.shape, 2)
        total = (
            pairs if c is None else pairs + ELEMENT_TYPES["f16"].decode(np.ascontiguousarray(c)).reshape(pairs.shape)
        )
        d[...] = total.astype(np.float16, order="C").view(np.uint32)[..., 0]
        return d
    fragments = axes.transpose(_REGISTERS_FIRST)
    target = d.reshape(fragments.shape)
    if acc_type == "s32":
        target[...] = add_integers(fragments, None if c is None else c.reshape(fragments.shape), saturate)
    elif c is None:
        target[...] = fragments
    else:
        np.add(c.reshape(fragments.shape), fragments, out=target)
    return d


def add_fragments(
    adder: Adder, factors: Factors, acc_type: str, c: Array | None, d: Array, shape: tuple[int, ...]
) -> Array:
    """D = C + products, added as tensor cores do, in fragments as accumulate_fragments takes them.

    shape: of the product, (tile, C, M, N). acc_type: f32 or f16.
    """
    start = np.zeros(shape, np.float32) if c is None else matrix_of_c(c, acc_type, shape)
    return accumulate_fragments(hardware_sum(adder, factors, start, acc_type), acc_type, None, d)


def add_integers(product: Values, c: Any, saturate: bool) -> Words:
    """The sum of whole float32 and int32 bits, as int32 bits; it wraps unless it saturates."""
    if not saturate:
        words: Words = product.astype(np.int32).view(np.uint32)
        return words if c is None else words + c
    total = product.astype(np.int64) + (0 if c is None else np.ascontiguousarray(c).view(np.int32))
    clamped: Words = np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)
    return clamped
