"""mma.sp: A with two of four elements, and metadata that say which. Source: PTX ISA, "Sparse matrix storage".

A row of A keeps half of its elements, in the fragments of a dense A of half the depth. For each pair of kept units the
metadata hold two 2-bit positions among four, the first in the lower bits. A unit is an element of 8 or 16 bits, half
an element of tf32 (so that one of two elements is kept) or two neighbors of 4 bits. Of four consecutive lanes,
holding rows g and g + 8, these contribute a word of metadata each, in the order of columns:

    bits of a row   16-bit elements and tf32                    elements of 8 and 4 bits
         16         lane `selector`: row g in the low half,
                    g + 8 in the high half
         32         lanes 2 selector, + 1, likewise             lanes 2 selector (row g) and + 1 (row g + 8)
         64                                                     lanes 0 and 2 (row g), 1 and 3 (row g + 8)
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.matrices.accumulation import Arithmetic, Factors, adder_of
from tilewright.emulator.semantics.matrices.fragments import (
    ELEMENT_TYPES,
    Array,
    MmaForm,
    Values,
    Words,
    accumulate_fragments,
    add_fragments,
    check_types,
    matrix_of_a,
    matrix_of_b,
    product_of,
)

_DEPTHS = {"f16": (16, 32), "bf16": (16, 32), "tf32": (8, 16), "fp8": (64,), "integer": (32, 64), "int4": (64, 128)}
"""Type family -> the possible values of K."""


def sparse_mma(
    form: MmaForm, selector: int, a: Words, b: Words, c: Array, metadata: Words, arithmetic: Arithmetic = "exact"
) -> Array:
    """D = A B + C of mma.sp.sync.aligned.m16n8kK.row.col for every warp.

    Arguments and result as for tensor_cores.mma_sync, with a of half the depth; metadata: (1, W, 32, C).

    Raises ValueError for an unsupported combination.
    """
    element = check_types(form.a_type, form.b_type, form.d_type)
    depth = int(form.shape.removeprefix("m16n8k"))
    step = 4 * element.per_register
    if depth not in _DEPTHS.get(element.family, ()) or (len(a), len(b)) != (depth // step, depth // step):
        raise ValueError(
            f"sparse mma shape {form.shape} for {form.a_type} with {len(a)} and {len(b)} registers is not supported: "
            f"K is one of {', '.join(map(str, _DEPTHS.get(element.family, ())))}, and A and B have K / {step} registers"
        )
    kept, places = matrix_of_a(a, form.a_type), _places(metadata[0], selector, depth, form.a_type)
    matrix_b, d = matrix_of_b(b, form.b_type), np.empty(c.shape, c.dtype)
    if adder := adder_of(arithmetic, "mma", element.family):
        by_k = np.moveaxis(kept, 3, 0)[..., None], np.moveaxis(_selected(matrix_b, places), 3, 0)
        factors = Factors(*by_k, form.a_type, form.b_type)
        return add_fragments(adder, factors, form.d_type, c, d, (*kept.shape[:3], matrix_b.shape[3]))
    product = _product(kept, places, matrix_b)
    return accumulate_fragments(product, form.d_type, c, d, saturate=form.saturate)


def _product(kept: Values, places: npt.NDArray[np.int64], b: Values) -> Values:
    """(W, C, 16, 8): the kept part of A, (W, C, 16, K / 2), times the rows of B, (W, C, K, 8), at these places.

    An infinity or a NaN of B that meets no kept element does not count, so A is not filled with zeros there.
    """
    if np.isfinite(b).all():
        dense = np.zeros((*kept.shape[:-1], b.shape[2]), kept.dtype)
        np.put_along_axis(dense, places, kept, axis=3)
        return product_of(dense, b)
    return product_of(kept[..., None, :], _selected(b, places))[..., 0, :]


def _selected(b: Values, places: npt.NDArray[np.int64]) -> Values:
    """The rows of B, (W, C, K, 8), that meet the kept elements of each row of A: (W, C, 16, K / 2, 8)."""
    return np.take_along_axis(b[:, :, None], places[..., None], axis=3)


def _places(metadata: Words, selector: int, depth: int, a_type: str) -> npt.NDArray[np.int64]:
    """The columns (W, C, 16, K / 2) of the elements that are kept."""
    row_bits = {"tf32": 2 * depth, "s4": depth // 2, "u4": depth // 2}.get(a_type, depth)
    wide = ELEMENT_TYPES[a_type].per_register <= 2
    warps, _, ctas = metadata.shape
    lanes = metadata.reshape(warps, 8, 4, ctas).transpose(0, 3, 1, 2)  # (W, C, g, lane of four)
    count = row_bits // 16 if wide else row_bits // 32 * 2
    if not 0 <= selector < 4 // count:
        raise ValueError(f"the sparsity selector is {selector}; of this shape and type it is below {4 // count}")
    words = np.ascontiguousarray(lanes[..., selector * count : (selector + 1) * count])
    # (W, C, g, piece, row half) for wide elements, else in whole words; pieces follow each other along a row.
    pieces: npt.NDArray[Any] = words.view(np.uint16) if wide else words
    by_row = pieces.reshape(warps, ctas, 8, -1, 2).transpose(0, 1, 4, 2, 3)
    rows = np.ascontiguousarray(by_row).reshape(warps, ctas, 16, -1).view(np.uint8)
    codes = (rows[..., None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).reshape(warps, ctas, 16, -1).astype(np.int64)
    units = codes + np.arange(codes.shape[-1]) // 2 * 4
    if a_type == "tf32":
        return units[..., ::2] // 2
    if ELEMENT_TYPES[a_type].per_register == 8:
        return (2 * units[..., None] + np.arange(2)).reshape(*units.shape[:-1], -1)
    return units
