"""mma.m8n8k4 of f16: four products per warp, each of eight lanes. Source: PTX ISA, "Matrix Fragments for mma.m8n8k4".

Product q belongs to lanes 4 q .. 4 q + 3 (low) and 16 + 4 q .. 16 + 4 q + 3 (high). With r = lane % 4, h = 4 for high
lanes and else 0, element i of a lane lies at

    A, row-major       row  r + h                        column  i
    A, column-major    row  i + h                        column  r
    B, row-major       row  r                            column  i + h
    B, column-major    row  i                            column  r + h
    C and D of f16     row  r + h                        column  i
    C and D of f32     row  r & 1 | i & 2 | h            column  i & 4 | r & 2 | i & 1

Only sm_70 has this instruction. For later GPUs ptxas writes a function that multiplies and adds on the CUDA cores.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.semantics.matrices.accumulation import Arithmetic, with_one_nan
from tilewright.emulator.semantics.matrices.fragments import ELEMENT_TYPES, Array, MmaForm, Values, Words, product_of
from tilewright.emulator.semantics.scalars import fused

_LANE = np.arange(32)[:, None]
_PRODUCT, _R, _H = _LANE % 16 // 4, _LANE % 4, _LANE // 16 * 4
_I4, _I8 = np.arange(4)[None], np.arange(8)[None]

Places: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Rows and columns of the elements of each lane, both of a shape that broadcasts to (32, elements)."""

_PLACES_OF_A: dict[str, Places] = {"row": (_R + _H, _I4), "col": (_I4 + _H, _R)}
_PLACES_OF_B: dict[str, Places] = {"row": (_R, _I4 + _H), "col": (_I4, _R + _H)}
_PLACES_OF_C: dict[str, Places] = {"f16": (_R + _H, _I8), "f32": (_R & 1 | _I8 & 2 | _H, _I8 & 4 | _R & 2 | _I8 & 1)}


def mma_of_quad_pairs(form: MmaForm, a: Words, b: Words, c: Array, arithmetic: Arithmetic = "exact") -> list[Array]:
    """D = A B + C of mma.sync.aligned.m8n8k4 of f16, for every warp.

    a, b: (2, W, 32, C) words.
    c: (4, W, 32, C) words of f16 or (8, W, 32, C) float32. Returns registers of D, as of C.
    """
    a_layout, b_layout = form.layouts
    matrix_a = _gather(_halves(a), _PLACES_OF_A[a_layout], (8, 4))
    matrix_b = _gather(_halves(b), _PLACES_OF_B[b_layout], (4, 8))
    addend = _gather(_halves(c) if form.c_type == "f16" else np.moveaxis(c, 0, -1), _PLACES_OF_C[form.c_type], (8, 8))
    if arithmetic == "hardware":
        total = _sum_of_later_gpus(matrix_a, matrix_b, addend, form.d_type)
    else:
        total = product_of(matrix_a, matrix_b) + addend
    elements = np.moveaxis(total[:, :, _PRODUCT, *_PLACES_OF_C[form.d_type]], 1, 2)  # (W, 32, C, 8)
    if form.d_type == "f16":
        elements = np.ascontiguousarray(elements.astype(np.float16)).view(np.uint32)
    return list(np.moveaxis(elements, -1, 0))


def _sum_of_later_gpus(a: Values, b: Values, c: Values, d_type: str) -> Values:
    """C + A B in float32, as ptxas 13.0 writes it for sm_80 to sm_90: (..., 8, 4), (..., 4, 8) and (..., 8, 8)."""

    def product(k: int) -> tuple[Values, Values]:
        return a[..., :, k, None], b[..., k, None, :]

    with np.errstate(all="ignore"):
        if d_type == "f16":
            lower, upper = (fused(*product(k + 1), np.multiply(*product(k))) for k in (0, 2))
            return with_one_nan((c + lower) + upper)
        total = np.zeros_like(c)
        for k in range(4):
            total = fused(*product(k), total)
        return with_one_nan(c + total)


def _halves(registers: Array) -> Values:
    """Words (registers, W, 32, C) as the values of their elements, (W, 32, C, elements)."""
    return ELEMENT_TYPES["f16"].decode(np.ascontiguousarray(np.moveaxis(registers, 0, -1)))


def _gather(elements: Values, places: Places, shape: tuple[int, int]) -> Values:
    """Matrices (W, C, 4, rows, columns) of the elements (W, 32, C, elements) of all lanes."""
    warps, _, ctas, _ = elements.shape
    matrices = np.zeros((warps, ctas, 4, *shape), elements.dtype)
    matrices[:, :, _PRODUCT, *places] = np.moveaxis(elements, 2, 1)
    return matrices
